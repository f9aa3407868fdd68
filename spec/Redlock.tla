------------------------------ MODULE Redlock -------------------------------
(* A lock on a majority of independent nodes, with a ballot for the token: an attempt proposes a
   number, a node accepts only a number above the highest it has accepted, and a majority must
   accept the same one.

   Requests arrive at any time after they were sent, any number of times, or never; replies get
   lost; a node may expire a holder at any moment (its clock may be wrong), and may lose its data.
   So two may believe to hold at once: that is no invariant here. The tokens are.

   Two attempts and two numbers are enough. What is asked for compares two attempts; a third only
   raises marks and occupies nodes, which refuses more; and only the order of two numbers counts. *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
  Nodes, Attempts,
  Tokens,       \* what an attempt may propose; its clock may say anything
  ReleaseMarks, \* a release also raises the node's mark to its token
  ExtendBy,     \* a renewal is accepted by "id" if held, or by "mark" if the token is the mark
  Wipes,        \* how often a node loses its data
  Rejoin        \* a wiped node answers "at once", or has first copied the highest mark of a majority
                \* of the joined nodes ("copied"), and that only when every attempt that was under
                \* way at the wipe is over ("waited": after the longest ttl)

VARIABLES
  mark, holder, joined,  \* of each node
  state, token,          \* of each attempt: idle, asking, held, released; or gave up before it won
  accepted,              \* the nodes that are known to have accepted, while it asks
  freed,                 \* the nodes that have applied its release, and remember
  earlier,               \* the attempts that had won before it began
  wipes, under           \* how many wipes; the attempts that each absent node must wait for

vars == <<mark, holder, joined, state, token, accepted, freed, earlier, wipes, under>>

Nobody == "nobody"
Majority(S) == Cardinality(S) * 2 > Cardinality(Nodes)
Max(a, b) == IF a > b THEN a ELSE b
Highest(S) == CHOOSE t \in S : \A u \in S : u <= t
Winners == {a \in Attempts : state[a] \in {"held", "released"}}

Init ==
  /\ mark = [n \in Nodes |-> 0] /\ holder = [n \in Nodes |-> Nobody]
  /\ joined = [n \in Nodes |-> TRUE]
  /\ state = [a \in Attempts |-> "idle"] /\ token = [a \in Attempts |-> 0]
  /\ accepted = [a \in Attempts |-> {}] /\ freed = [a \in Attempts |-> {}]
  /\ earlier = [a \in Attempts |-> {}]
  /\ wipes = 0 /\ under = [n \in Nodes |-> {}]

Begin(a) ==
  /\ state[a] = "idle" /\ state' = [state EXCEPT ![a] = "asking"]
  /\ \E t \in Tokens : token' = [token EXCEPT ![a] = t]
  /\ earlier' = [earlier EXCEPT ![a] = Winners]
  /\ UNCHANGED <<mark, holder, joined, accepted, freed, wipes, under>>

(* A proposal arrives, perhaps when nobody wants it any more. *)
Accept(n, a) ==
  /\ state[a] # "idle" /\ joined[n] /\ holder[n] = Nobody /\ token[a] > mark[n]
  /\ mark' = [mark EXCEPT ![n] = token[a]] /\ holder' = [holder EXCEPT ![n] = a]
  /\ \/ UNCHANGED accepted  \* the reply is lost
     \/ state[a] = "asking" /\ accepted' = [accepted EXCEPT ![a] = @ \cup {n}]
  /\ UNCHANGED <<joined, state, token, freed, earlier, wipes, under>>

(* A second copy finds that the node holds for it. *)
AcceptAgain(n, a) ==
  /\ state[a] = "asking" /\ joined[n] /\ holder[n] = a
  /\ accepted' = [accepted EXCEPT ![a] = @ \cup {n}]
  /\ UNCHANGED <<mark, holder, joined, state, token, freed, earlier, wipes, under>>

Win(a) ==
  /\ state[a] = "asking" /\ Majority(accepted[a])
  /\ state' = [state EXCEPT ![a] = "held"] /\ accepted' = [accepted EXCEPT ![a] = {}]
  /\ UNCHANGED <<mark, holder, joined, token, freed, earlier, wipes, under>>

Quit(a) ==
  /\ \/ state[a] = "asking" /\ state' = [state EXCEPT ![a] = "gave up"]
     \/ state[a] = "held" /\ state' = [state EXCEPT ![a] = "released"]
  /\ accepted' = [accepted EXCEPT ![a] = {}]
  /\ UNCHANGED <<mark, holder, joined, token, freed, earlier, wipes, under>>

(* A release goes to every node, also to one that never answered. *)
Free(n, a) ==
  /\ state[a] \in {"gave up", "released"} /\ n \notin freed[a] /\ joined[n]
  /\ holder' = [holder EXCEPT ![n] = IF @ = a THEN Nobody ELSE @]
  /\ mark' = [mark EXCEPT ![n] = IF ReleaseMarks THEN Max(@, token[a]) ELSE @]
  /\ freed' = [freed EXCEPT ![a] = @ \cup {n}]
  /\ UNCHANGED <<joined, state, token, accepted, earlier, wipes, under>>

(* A late renewal. By id it changes nothing here, since it needs a node that holds already. *)
Extend(n, a) ==
  /\ ExtendBy = "mark" /\ state[a] # "idle" /\ joined[n]
  /\ holder[n] = Nobody /\ mark[n] = token[a]
  /\ holder' = [holder EXCEPT ![n] = a]
  /\ UNCHANGED <<mark, joined, state, token, accepted, freed, earlier, wipes, under>>

Expire(n) ==
  /\ holder[n] # Nobody /\ holder' = [holder EXCEPT ![n] = Nobody]
  /\ UNCHANGED <<mark, joined, state, token, accepted, freed, earlier, wipes, under>>

Wipe(n) ==
  /\ wipes < Wipes /\ wipes' = wipes + 1
  /\ mark' = [mark EXCEPT ![n] = 0] /\ holder' = [holder EXCEPT ![n] = Nobody]
  /\ joined' = [joined EXCEPT ![n] = (Rejoin = "at once")]
  /\ freed' = [a \in Attempts |-> freed[a] \ {n}]
  /\ under' = IF Rejoin = "waited"
              THEN [under EXCEPT ![n] = {a \in Attempts : state[a] = "asking"}] ELSE under
  /\ UNCHANGED <<state, token, accepted, earlier>>

JoinAgain(n) ==
  /\ ~joined[n] /\ joined' = [joined EXCEPT ![n] = TRUE]
  /\ \A a \in under[n] : state[a] # "asking"
  /\ under' = [under EXCEPT ![n] = {}]
  /\ \E Q \in SUBSET {m \in Nodes : joined[m]} :
       Majority(Q) /\ mark' = [mark EXCEPT ![n] = Highest({mark[m] : m \in Q})]
  /\ UNCHANGED <<holder, state, token, accepted, freed, earlier, wipes>>

Next ==
  \/ \E a \in Attempts : Begin(a) \/ Win(a) \/ Quit(a)
  \/ \E n \in Nodes : Expire(n) \/ Wipe(n) \/ JoinAgain(n)
  \/ \E n \in Nodes, a \in Attempts : Accept(n, a) \/ AcceptAgain(n, a) \/ Free(n, a) \/ Extend(n, a)
Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Nodes) \cup Permutations(Attempts)

Unique == \A a, b \in Winners : a # b => token[a] # token[b]
(* Whoever begins after another has won gets a higher token. *)
Increasing == \A b \in Winners : \A a \in earlier[b] : token[b] > token[a]
(* More than is promised: in the order in which they learn that they have won. *)
IncreasingByVictory ==
  [][\A a \in Winners' \ Winners : \A b \in Winners : token[b] < token[a]]_vars
(* Once a node has applied a release, it never again holds for that attempt. *)
NoGhost == \A a \in Attempts : \A n \in freed[a] : holder[n] # a
=============================================================================
