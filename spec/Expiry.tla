------------------------------- MODULE Expiry -------------------------------
(* A lock whose claims expire, on an engine whose clock may jump forward and back.

   Expiry happens in the step that looks at the queue. Does it delete what is over, or only leave it
   out? And is an expiry that a clock going back has left far ahead pulled in again? *)
EXTENDS Naturals, Sequences, TLC

CONSTANTS
  Claims, TTL,
  Times,     \* what the engine's clock may read
  Deletes,   \* TRUE: the expired are deleted; FALSE: they are filtered out
  PullsIn    \* whether a look keeps every expiry within TTL of the present

VARIABLES
  now, queue, expires,
  granted,   \* the claims that ever were granted
  far        \* after the last look, a claim expires later than a ttl from then

vars == <<now, queue, expires, granted, far>>

Range(s) == {s[i] : i \in DOMAIN s}
Lives(c) == expires[c] > now
Live == SelectSeq(queue, Lives)

Init == now = 0 /\ queue = <<>> /\ expires = [c \in Claims |-> 0] /\ granted = {} /\ far = FALSE

(* One atomic step of the engine: expire, change, grant to the head. *)
Step(Change(_), renewed) ==
  /\ queue' = Change(IF Deletes THEN Live ELSE queue)
  /\ expires' = [c \in Claims |->
       IF c \in renewed \/ (PullsIn /\ expires[c] > now + TTL) THEN now + TTL ELSE expires[c]]
  /\ LET LivesThen(c) == expires'[c] > now
         there == SelectSeq(queue', LivesThen)
     IN /\ granted' = granted \cup (IF there = <<>> THEN {} ELSE {Head(there)})
        /\ far' = \E c \in Range(there) : expires'[c] > now + TTL
  /\ UNCHANGED now

Join(c) == /\ c \notin Range(queue) /\ c \notin granted
           /\ LET Add(q) == Append(q, c) IN Step(Add, {c})
Renew(c) == /\ c \in Range(Live)
            /\ LET Keep(q) == q IN Step(Keep, {c})
Resign(c) == /\ c \in Range(Live)
             /\ LET Other(d) == d # c
                    Drop(q) == SelectSeq(q, Other)
                IN Step(Drop, {})
Jump == now' \in Times /\ UNCHANGED <<queue, expires, granted, far>>

Next == Jump \/ \E c \in Claims : Join(c) \/ Renew(c) \/ Resign(c)
Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Claims)

(* No claim that was granted and lives has another in front of it: there is one holder. *)
OneHolder == \A i \in DOMAIN Live : Live[i] \in granted => i = 1
(* A holder that died blocks the others for a ttl, whatever the clock did. *)
Bounded == ~far
=============================================================================
