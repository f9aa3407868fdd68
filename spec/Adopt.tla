-------------------------------- MODULE Adopt --------------------------------
(* etcd: a claim is a key on the lease of the engine that has put it. The engine is a replica of the
   service, and its client moves to another one. That replica adopts the claim: it puts the key on its
   own lease. The create revision, which is the token, stays.

   There is one claim, and its client holds it. In the beginning it is on the lease of replica 1, which
   still has a late copy of the claim in a buffer. A replica may be paused between any two steps, and
   one that does nothing any more has died. A put or a deletion that was sent may be applied at any
   later time. A keepalive is applied and answered at once (`Validity` and `Deposed` are about its
   delays), and may come at any time, since a replica has other clients. *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  TTL,       \* of the lease, and of each replica's lease
  End,       \* the clock stops here
  Most,      \* the requests of the client, with the claim itself
  Conns,     \* its connections: the odd ones lead to replica 1, the even ones to replica 2
  Old,       \* how much time replica 2's lease has left in the beginning
  Fresh,     \* whether a replica keeps its lease alive before it reads the key and puts it there
  Good,      \* an adoption is worth what is "left" of the replica's lease, or the whole "ttl"
  Compare,   \* what a put compares: only the token ("create"), or that the key is as it was read ("mod")
  Order,     \* which connections put the key: "any" whose replica does not have it; the same, and each
             \* with its first frame ("touch"); with its first frame, if the key names none that is
             \* "later"
  Prune,     \* a replica ends a claim that is over: "always"; if it is on its own "lease"; or if it is as
             \* that replica has put it ("mod")
  Found,     \* a late copy of the claim that finds its key on another lease "deletes" or "adopts" it
  Overlap,   \* whether the client still renews on an earlier connection after the first frame of a later
  Revoke,    \* a replica that drains revokes its lease "never"; if it knows of no claim on it ("idle");
             \* or if besides no put of its own is unanswered ("settled")
  Unsure     \* a put that is never answered may have laid the key on a lease that the replica keeps for
             \* others. The replica "leaves" it; or after a ttl it "ends" what names the connection of that
             \* put, and takes up no frame of that connection any more; or it does so at once ("early")

VARIABLES
  now,
  lease,       \* when the lease of each replica ends
  key,         \* whether it is there, on which lease, its mod revision, and the connection that it names
  conn,        \* the client's present connection
  frames,      \* of the client, on their way or in the buffer of a replica
  sent,        \* how many there were
  until, lost, \* what the client believes
  mine,        \* what each replica believes to have put, and until when it is worth something
  ended,       \* the highest connection whose unanswered put each replica has ended
  puts, dels   \* on their way to etcd

vars == <<now, lease, key, conn, frames, sent, until, lost, mine, ended, puts, dels>>
Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b
R == {1, 2}
At(c) == IF c % 2 = 1 THEN 1 ELSE 2  \* the replica at the other end of a connection
Alive(r) == now < lease[r]
Believes == ~lost /\ now < until

Init == /\ now = 0 /\ lease = [r \in R |-> IF r = 1 THEN TTL ELSE Old]
        /\ key = [there |-> TRUE, on |-> 1, mod |-> 1, conn |-> 1]
        /\ conn = 1 /\ frames = {[kind |-> "claim", conn |-> 1, at |-> 0, n |-> 0]} /\ sent = 1
        /\ until = TTL /\ lost = FALSE
        /\ mine = [r \in R |-> IF r = 1 THEN [has |-> TRUE, mod |-> 1, until |-> TTL]
                               ELSE [has |-> FALSE, mod |-> 0, until |-> 0]]
        /\ ended = [r \in R |-> 0] /\ puts = {} /\ dels = {}

(* Time passes, and the key ends with its lease. *)
Tick == /\ now < End /\ now' = now + 1
        /\ key' = IF key.there /\ lease[key.on] <= now + 1 THEN [key EXCEPT !.there = FALSE] ELSE key
        /\ UNCHANGED <<lease, conn, frames, sent, until, lost, mine, ended, puts, dels>>

(* A replica keeps its lease alive, for any of its clients. *)
Keep(r) == /\ Alive(r) /\ lease[r] < now + TTL /\ lease' = [lease EXCEPT ![r] = now + TTL]
           /\ UNCHANGED <<now, key, conn, frames, sent, until, lost, mine, ended, puts, dels>>

(* The client sends a renewal. *)
Renew == /\ Believes /\ sent < Most /\ sent' = sent + 1
         /\ \E c \in IF Overlap THEN 1..conn ELSE {conn} :
              frames' = frames \cup {[kind |-> "renew", conn |-> c, at |-> now, n |-> sent]}
         /\ UNCHANGED <<now, lease, key, conn, until, lost, mine, ended, puts, dels>>

(* The client connects to the other replica. *)
Move == /\ Believes /\ conn < Conns /\ conn' = conn + 1
        /\ UNCHANGED <<now, lease, key, frames, sent, until, lost, mine, ended, puts, dels>>

(* The client is told that it holds, on whatever connection; or the answer is lost. *)
Answer(f, worth) ==
  \/ UNCHANGED <<until, lost>>
  \/ /\ Believes /\ f.kind = "renew"
     /\ until' = Max(until, f.at + worth) /\ UNCHANGED lost

(* The client is told that its claim is gone. It believes that of its present connection alone. *)
Gone(f) ==
  \/ UNCHANGED <<until, lost>>
  \/ f.conn = conn /\ lost' = TRUE /\ UNCHANGED until

(* A replica takes a frame up: it keeps its lease alive, reads the key, and answers or sends a put. *)
Take(f) ==
  LET r == At(f.conn)
      life == IF Fresh THEN now + TTL ELSE lease[r]
      own == key.on = r /\ mine[r].has /\ mine[r].mod = key.mod
  IN
  /\ Alive(r) /\ frames' = frames \ {f} /\ lease' = [lease EXCEPT ![r] = life]
  /\ CASE ~key.there -> Gone(f) /\ mine' = [mine EXCEPT ![r].has = FALSE] /\ UNCHANGED <<puts, dels>>
       [] key.there /\ f.conn <= ended[r] -> Gone(f) /\ UNCHANGED <<mine, puts, dels>>
       [] key.there /\ f.conn > ended[r] /\ f.kind = "claim" /\ Found = "deletes" /\ ~own ->
            /\ dels' = dels \cup {[by |-> r, mod |-> key.mod, of |-> 0, all |-> TRUE]}
            /\ UNCHANGED <<until, lost, mine, puts>>
       [] key.there /\ f.conn > ended[r] /\ own /\ (Order # "any" => f.conn <= key.conn)
          /\ (f.kind = "claim" => Found = "adopts") ->
            \* It has the key: the keepalive is the renewal.
            /\ mine' = [mine EXCEPT ![r].until = Max(@, Min(now + TTL, life))]
            /\ IF Order = "later" /\ f.conn < key.conn THEN UNCHANGED <<until, lost>> ELSE Answer(f, life - now)
            /\ UNCHANGED <<puts, dels>>
       [] key.there /\ f.conn > ended[r] /\ Order = "later" /\ f.conn < key.conn ->
            UNCHANGED <<until, lost, mine, puts, dels>>
       [] OTHER -> /\ puts' = puts \cup {[f |-> f, by |-> r, mod |-> key.mod, read |-> now, life |-> life,
                                        done |-> FALSE]}
                   /\ UNCHANGED <<until, lost, mine, dels>>
  /\ UNCHANGED <<now, key, conn, sent, ended>>

(* The put of an adoption is applied. If the key has changed, the replica takes the frame up again. Or
   the answer is lost, and the replica does not know that it has the key. *)
Put(p) ==
  LET same == key.there /\ Alive(p.by) /\ (Compare = "mod" => key.mod = p.mod)
      good == Min(TTL, p.life - p.read)
  IN
  /\ ~p.done
  /\ IF same
     THEN /\ key' = [key EXCEPT !.on = p.by, !.mod = @ + 1, !.conn = Max(@, p.f.conn)]
          /\ UNCHANGED frames
          /\ \/ /\ puts' = puts \ {p}
                /\ mine' = [mine EXCEPT ![p.by] = [has |-> TRUE, mod |-> key.mod + 1,
                                                   until |-> p.read + good]]
                /\ Answer(p.f, IF Good = "ttl" THEN TTL ELSE good)
             \/ /\ puts' = (puts \ {p}) \cup {[p EXCEPT !.done = TRUE]}
                /\ UNCHANGED <<mine, until, lost>>
     ELSE /\ puts' = puts \ {p}
          /\ frames' = frames \cup {p.f} /\ UNCHANGED <<key, mine, until, lost>>
  /\ UNCHANGED <<now, lease, conn, sent, ended, dels>>

(* A replica ends a claim that was not renewed with it. *)
Over(r) ==
  /\ mine[r].has /\ now >= mine[r].until /\ mine' = [mine EXCEPT ![r].has = FALSE]
  /\ dels' = dels \cup {[by |-> r, mod |-> mine[r].mod, of |-> 0, all |-> FALSE]}
  /\ UNCHANGED <<now, lease, key, conn, frames, sent, until, lost, ended, puts>>

(* A replica ends a claim after a put that was not answered. It moves its gate first, so none of its
   puts that are under way is applied afterwards. Then it reads and deletes the key, and again if that
   has changed meanwhile, as long as it names the connection of the put, or an earlier one and is on a
   lease of this replica. What it has put for an earlier connection of the client ends with that. *)
EndUnsure(p) ==
  /\ Unsure # "leaves" /\ (mine[p.by].has => mine[p.by].mod <= p.mod)
  /\ Unsure = "ends" => now >= p.read + Min(TTL, p.life - p.read)
  /\ mine' = [mine EXCEPT ![p.by].has = FALSE]
  /\ ended' = [ended EXCEPT ![p.by] = Max(@, p.f.conn)]
  /\ puts' = {q \in puts : q.by # p.by}
  /\ frames' = frames \cup {q.f : q \in {q \in puts : q.by = p.by /\ ~q.done}}
  /\ dels' = dels \cup {[by |-> p.by, mod |-> 0, of |-> p.f.conn, all |-> FALSE]}
  /\ UNCHANGED <<now, lease, key, conn, sent, until, lost>>

(* A deletion is applied. *)
Del(d) ==
  /\ dels' = dels \ {d}
  /\ key' = IF d.all \/ d.of = key.conn \/ (key.conn < d.of /\ key.on = d.by) \/ Prune = "always" \/ (Prune = "lease" /\ key.on = d.by)
                     \/ (Prune = "mod" /\ key.mod = d.mod)
            THEN [key EXCEPT !.there = FALSE] ELSE key
  /\ UNCHANGED <<now, lease, conn, frames, sent, until, lost, mine, ended, puts>>

(* A replica drains, and revokes its lease: what is on it goes. *)
Drain(r) ==
  /\ Revoke # "never" /\ Alive(r) /\ ~mine[r].has
  /\ Revoke = "settled" => ~\E p \in puts : p.by = r
  /\ lease' = [lease EXCEPT ![r] = now]
  /\ key' = IF key.on = r THEN [key EXCEPT !.there = FALSE] ELSE key
  /\ UNCHANGED <<now, conn, frames, sent, until, lost, mine, ended, puts, dels>>

Next == \/ Tick \/ Renew \/ Move
        \/ (\E r \in R : Keep(r) \/ Over(r) \/ Drain(r)) \/ (\E f \in frames : Take(f))
        \/ (\E p \in puts : Put(p) \/ EndUnsure(p)) \/ (\E d \in dels : Del(d))
Spec == Init /\ [][Next]_vars

(* Whoever believes to hold has a key. Otherwise the next in line is granted the lock beside it. *)
Inside == Believes => key.there
=============================================================================
