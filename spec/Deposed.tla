------------------------------ MODULE Deposed -------------------------------
(* A lease that a leader's memory keeps alive, as in etcd and ZooKeeper, and leaders that change.

   When a lease ends is decided by the leader of the present term alone, by its own clock. A new
   leader starts the time of every lease anew. A leader that was deposed does not know it: paused,
   cut off and resumed, it takes renewals in and answers whatever needs no other server. It cannot
   commit anything, since a majority has moved on.

   Which answer lets a client believe in its lease for another TTL from when it sent the request? *)
EXTENDS Naturals

CONSTANTS
  TTL,
  End,         \* the clock stops here
  Terms,       \* how many leaders there are, one after the other
  Requests,    \* how many renewals the client may send
  Renew,       \* what it takes for one: "keepalive", the word of whoever took it in;
               \* "any term", and a transaction behind it that was committed;
               \* "same term", and that one in the term of the keepalive (etcd);
               \* "quorum", the renewal itself is a transaction (ZooKeeper)
  Touch        \* the leader counts from the renewal "at once", or some time "later" or never:
               \* a follower that took it in reports it, unless it crashes

VARIABLES
  now,
  term,        \* of the rightful leader
  expires,     \* for each term: when its leader lets the lease end
  gone,        \* the lease has ended, and somebody else may be granted the lock
  sent,
  flight,      \* renewals: at, when it was sent; by, the term of the leader that took it in; done,
               \* the term in which it, or the transaction behind it, was committed
  until        \* what the client believes

vars == <<now, term, expires, gone, sent, flight, until>>
None == 0
Max(a, b) == IF a > b THEN a ELSE b

Init == /\ now = 0 /\ term = 1 /\ gone = FALSE /\ sent = 0 /\ flight = {} /\ until = TTL
        /\ expires = [t \in 1..Terms |-> IF t = 1 THEN TTL ELSE 0]

Tick == /\ now < End /\ now' = now + 1
        /\ gone' = (gone \/ expires[term] <= now + 1)
        /\ UNCHANGED <<term, expires, sent, flight, until>>

Elect == /\ term < Terms /\ term' = term + 1
         /\ expires' = [expires EXCEPT ![term + 1] = now + TTL]
         /\ UNCHANGED <<now, gone, sent, flight, until>>

Send == /\ sent < Requests /\ now < until /\ sent' = sent + 1
        /\ flight' = flight \cup {[n |-> sent, at |-> now, by |-> None, done |-> None]}
        /\ UNCHANGED <<now, term, expires, gone, until>>

Replace(m, new) == flight' = (flight \ {m}) \cup {new}
Count(t) == expires' = [expires EXCEPT ![t] = Max(expires[t], now + TTL)]

(* Whoever leads takes it in if the lease is there, and so does whoever led and does not know. *)
TakeIn(m, t) ==
  /\ m.by = None /\ (t = term => ~gone)
  /\ Replace(m, [m EXCEPT !.by = t])
  /\ IF Touch = "at once" THEN Count(t) ELSE UNCHANGED expires
  /\ UNCHANGED <<now, term, gone, sent, until>>
Report(m) == /\ Touch = "later" /\ m.by = term /\ ~gone /\ Count(term)
             /\ UNCHANGED <<now, term, gone, sent, flight, until>>

(* Only the rightful leader commits; a transaction of another's is lost. *)
Commit(m) ==
  /\ m.by # None /\ m.done = None /\ ~gone
  /\ Renew = "quorum" => m.by = term
  /\ Replace(m, [m EXCEPT !.done = term])
  /\ UNCHANGED <<now, term, expires, gone, sent, until>>

Renews(m) ==
  CASE Renew = "keepalive" -> m.by # None
    [] Renew = "any term" -> m.done # None
    [] Renew = "same term" -> m.done # None /\ m.done = m.by
    [] Renew = "quorum" -> m.done # None

(* The answer comes, however late: but a late one revives nothing. *)
Answer(m) == /\ Renews(m) /\ now < until /\ until' = Max(until, m.at + TTL)
             /\ flight' = flight \ {m}
             /\ UNCHANGED <<now, term, expires, gone, sent>>

Next == \/ Tick \/ Elect \/ Send
        \/ \E m \in flight : Report(m) \/ Commit(m) \/ Answer(m) \/ \E t \in 1..term : TakeIn(m, t)
Spec == Init /\ [][Next]_vars

(* Nobody else is granted the lock while the client believes in its lease. *)
Inside == now < until => ~gone
=============================================================================
