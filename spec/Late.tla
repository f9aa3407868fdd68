-------------------------------- MODULE Late --------------------------------
(* Claims are sent, sent again, and resigned, over a network that delays and reorders. A resignation
   is final: no copy of the claim that arrives later may come to life. *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
  Ids,
  Copies,   \* of a claim, at most
  Tomb,     \* when a resignation leaves a tombstone: "never", if the claim is "absent", if a copy is
            \* unanswered ("doubt"), "always"; or instead of tombstones the session has a "gate"
  Patient   \* a tombstone stands until no copy would be applied any more

VARIABLES
  state,    \* of each claim in its client: idle, asking, held, leaving, gone
  network,
  sent, answered,  \* copies of each claim
  queue,    \* the engine's live claims
  tombs,
  over,     \* claims whose copies the engine refuses: their `not_after` has passed
  gate,     \* moved by every resignation in doubt; a claim must name its present value
  known     \* the gate as the client knows it

vars == <<state, network, sent, answered, queue, tombs, over, gate, known>>

Init == /\ state = [i \in Ids |-> "idle"] /\ network = {}
        /\ sent = [i \in Ids |-> 0] /\ answered = [i \in Ids |-> 0]
        /\ queue = {} /\ tombs = {} /\ over = {} /\ gate = 0 /\ known = 0

Send(i) ==
  /\ state[i] \in {"idle", "asking"} /\ sent[i] < Copies /\ i \notin over
  /\ state' = [state EXCEPT ![i] = "asking"]
  /\ sent' = [sent EXCEPT ![i] = @ + 1]
  /\ network' = network \cup {[kind |-> "claim", id |-> i, copy |-> sent[i], gate |-> known]}
  /\ UNCHANGED <<answered, queue, tombs, over, gate, known>>

(* In doubt while a copy is unanswered: it may still be on its way. *)
Resign(i) ==
  /\ state[i] \in {"asking", "held", "leaving"}
  /\ ~\E m \in network : m.kind = "resign" /\ m.id = i
  /\ gate < 3  \* only to keep the model finite
  /\ state' = [state EXCEPT ![i] = "leaving"]
  /\ network' = network \cup {[kind |-> "resign", id |-> i, doubt |-> sent[i] > answered[i]]}
  /\ UNCHANGED <<sent, answered, queue, tombs, over, gate, known>>

Applies(m) == \/ m.id \in queue
              \/ /\ m.id \notin tombs /\ m.id \notin over
                 /\ Tomb = "gate" => m.gate = gate

ApplyClaim(m, lost) ==
  /\ queue' = IF Applies(m) THEN queue \cup {m.id} ELSE queue
  /\ answered' = IF lost THEN answered ELSE [answered EXCEPT ![m.id] = @ + 1]
  /\ state' = IF ~lost /\ Applies(m) /\ state[m.id] = "asking"
              THEN [state EXCEPT ![m.id] = "held"] ELSE state
  /\ known' = IF lost THEN known ELSE gate
  /\ UNCHANGED <<sent, tombs, over, gate>>

ApplyResign(m, lost) ==
  /\ queue' = queue \ {m.id}
  /\ tombs' = IF \/ Tomb = "always"
                 \/ Tomb = "absent" /\ m.id \notin queue
                 \/ Tomb = "doubt" /\ m.doubt
              THEN tombs \cup {m.id} ELSE tombs
  /\ gate' = IF Tomb = "gate" /\ m.doubt THEN gate + 1 ELSE gate
  /\ state' = IF lost THEN state ELSE [state EXCEPT ![m.id] = "gone"]
  /\ known' = IF lost THEN known ELSE gate'
  /\ UNCHANGED <<sent, answered, over>>

Deliver(m) ==
  /\ network' = network \ {m}
  /\ \E lost \in BOOLEAN : IF m.kind = "claim" THEN ApplyClaim(m, lost) ELSE ApplyResign(m, lost)

(* Time passes. The gate needs none: it works without the claim's `not_after`. *)
Pass(i) == /\ Tomb # "gate" /\ i \notin over /\ over' = over \cup {i}
           /\ UNCHANGED <<state, network, sent, answered, queue, tombs, gate, known>>
Forget(i) == /\ i \in tombs /\ (Patient => i \in over) /\ tombs' = tombs \ {i}
             /\ UNCHANGED <<state, network, sent, answered, queue, over, gate, known>>

Next == \/ \E i \in Ids : Send(i) \/ Resign(i) \/ Pass(i) \/ Forget(i)
        \/ \E m \in network : Deliver(m)
Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Ids)

NoOrphan == \A i \in Ids : state[i] = "gone" => i \notin queue
=============================================================================
