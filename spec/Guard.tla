------------------------------- MODULE Guard --------------------------------
(* Holders increment a counter: each reads it, and some time later writes what it read plus one. Who
   holds, for how long and in which order is left to an adversary, and so are the tokens. What does
   the guard alone need, so that no increment is lost? *)
EXTENDS Naturals, TLC

CONSTANTS
  Holders, Tokens,
  Unique,     \* no two holders have the same token
  TieById,    \* an equal token passes only with the same claim's id
  Seals,      \* a holder raises the mark before it reads
  Atomic,     \* check and write are one step of the resource
  Forgets     \* the mark is deleted now and then

VARIABLES token, step, read, value, mark, owner, lost
vars == <<token, step, read, value, mark, owner, lost>>

Nobody == "nobody"
Init == /\ token \in [Holders -> Tokens]
        /\ Unique => \A a, b \in Holders : a # b => token[a] # token[b]
        /\ step = [h \in Holders |-> IF Seals THEN "seal" ELSE "read"]
        /\ read = [h \in Holders |-> 0] /\ value = 0
        /\ mark = 0 /\ owner = Nobody /\ lost = FALSE

Goes(h, from, to) == step[h] = from /\ step' = [step EXCEPT ![h] = to]
(* The rule: a higher token, or an equal one of the same claim. *)
Admit(h) == /\ \/ token[h] > mark
               \/ token[h] = mark /\ (TieById => owner = h)
            /\ mark' = token[h] /\ owner' = h
Put(h) == value' = read[h] + 1 /\ lost' = (lost \/ read[h] # value)

Seal(h) == Goes(h, "seal", "read") /\ Admit(h) /\ UNCHANGED <<token, read, value, lost>>
Read(h) == /\ Goes(h, "read", IF Atomic THEN "write" ELSE "check")
           /\ read' = [read EXCEPT ![h] = value] /\ UNCHANGED <<token, value, mark, owner, lost>>
Write(h) == Goes(h, "write", "done") /\ Admit(h) /\ Put(h) /\ UNCHANGED <<token, read>>
(* A check in front of the write, as a middleware would make it. *)
Check(h) == Goes(h, "check", "late") /\ Admit(h) /\ UNCHANGED <<token, read, value, lost>>
LateWrite(h) == Goes(h, "late", "done") /\ Put(h) /\ UNCHANGED <<token, read, mark, owner>>
Forget == /\ Forgets /\ mark' = 0 /\ owner' = Nobody
          /\ UNCHANGED <<token, step, read, value, lost>>

Next == Forget \/ \E h \in Holders : Seal(h) \/ Read(h) \/ Write(h) \/ Check(h) \/ LateWrite(h)
Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Holders)

NoLostUpdate == ~lost
=============================================================================
