------------------------------ MODULE Validity ------------------------------
(* One claim, its engine and its client: is the client's belief always inside the engine's lease?

   Clocks agree here (drift is left to the simulation); messages take as long as they like, overtake
   each other and get lost. A waiter lives on a shorter time than a holder. *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
  TTL, WaitTTL,
  End,         \* the clock stops here
  Requests,    \* how many the client may send
  GoodFor,     \* what a granted reply is worth: the time "left" that it reports, or the whole "ttl"
  From,        \* counted from: the "send" of the request, or the arrival of the "reply"
  LifeBy,      \* who picks the time of a renewal: the "engine", by whether it has granted, or the
               \* "client", by whether it knows of a grant
  Retry        \* a copy of the claim that finds its entry: "reports" it, or "extends" it too

VARIABLES
  now,
  requests, replies,  \* on their way
  sent,               \* how many were sent
  first,              \* when the first copy of the claim was sent
  there, expires,     \* the engine's entry
  granted,            \* the engine would grant it: nobody is ahead any more
  holds, until        \* what the client believes

vars == <<now, requests, replies, sent, first, there, expires, granted, holds, until>>
engine == <<there, expires, granted>>
client == <<holds, until>>
Max(a, b) == IF a > b THEN a ELSE b

Init == /\ now = 0 /\ requests = {} /\ replies = {} /\ sent = 0 /\ first = 0
        /\ there = FALSE /\ expires = 0 /\ granted = FALSE /\ holds = FALSE /\ until = 0

(* Expiry is by the engine's clock alone. *)
Tick == /\ now < End /\ now' = now + 1
        /\ there' = (there /\ expires > now + 1)
        /\ UNCHANGED <<requests, replies, sent, first, expires, granted, client>>

(* Whoever stood ahead has left. A push says so, some time or never. *)
Promote == /\ ~granted /\ granted' = TRUE
           /\ UNCHANGED <<now, requests, replies, sent, first, there, expires, client>>
Push == /\ there /\ granted /\ ~holds /\ now < until /\ holds' = TRUE
        /\ UNCHANGED <<now, requests, replies, sent, first, engine, until>>

Send(kind) ==
  /\ sent < Requests /\ sent' = sent + 1
  /\ requests' = requests \cup
       {[kind |-> kind, at |-> now, n |-> sent, life |-> IF holds THEN TTL ELSE WaitTTL]}
  /\ UNCHANGED <<now, replies, engine, client>>
Claim == ~holds /\ (sent > 0 => now < first + WaitTTL) /\ Send("claim")
         /\ first' = IF sent = 0 THEN now ELSE first
Renew == sent > 0 /\ Send("renew") /\ UNCHANGED first

Life(m) == IF LifeBy = "client" /\ m.kind = "renew" THEN m.life
           ELSE IF granted THEN TTL ELSE WaitTTL
Later(m) == IF LifeBy = "client" THEN now + Life(m) ELSE Max(expires, now + Life(m))

(* A copy is applied for one life of the claim after the first was sent, and no later: whatever it
   makes is the first entry of that id. *)
Apply(m) ==
  /\ requests' = requests \ {m}
  /\ IF there
     THEN /\ expires' = IF m.kind = "claim" /\ Retry = "reports" THEN expires ELSE Later(m)
          /\ there' = TRUE
     ELSE IF m.kind = "claim" /\ now < first + WaitTTL
     THEN there' = TRUE /\ expires' = now + Life(m)
     ELSE UNCHANGED <<there, expires>>
  /\ replies' = IF there' THEN replies \cup {[at |-> m.at, left |-> expires' - now, yes |-> granted]}
                ELSE replies
  /\ UNCHANGED <<now, sent, first, granted, client>>

Receive(r) ==
  /\ replies' = replies \ {r}
  /\ holds' = (holds \/ r.yes)
  /\ until' = Max(until, (IF From = "send" THEN r.at ELSE now)
                         + (IF GoodFor = "ttl" /\ r.yes THEN TTL ELSE r.left))
  /\ UNCHANGED <<now, requests, sent, first, engine>>

Next == \/ Tick \/ Promote \/ Push \/ Claim \/ Renew
        \/ \E m \in requests : Apply(m)
        \/ \E r \in replies : Receive(r)
Spec == Init /\ [][Next]_vars

Inside == (holds /\ now < until) => (there /\ granted)
=============================================================================
