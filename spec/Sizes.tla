------------------------------- MODULE Sizes -------------------------------
(* One name whose claims have a kind, a weight and a capacity of their own, as a semaphore has that
   changes its size while it is in use.

   The rule: a claim is granted if and only if all live claims ahead of it are granted, and its
   weight plus theirs is at most its own capacity. A client evaluates the rule on a snapshot of the
   queue, which may be old when it is used. Any claim may leave at any moment. *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
  Claims,     \* each is made once
  Shapes,     \* what a claim may be: <<kind, capacity, weight>>, with kind "lock" or "semaphore"
  Kinds,      \* "atomic": the engine refuses a claim of another kind than those that are there.
              \* "afterwards": the claim enters, and its client sees the kinds on a snapshot
              \* (ZooKeeper). Until it has left, neither it nor any claim behind it is granted.
              \* "none": kinds are not compared
  InOrder,    \* whether a claim waits until all claims ahead of it are granted
  TokenIf     \* who has a fencing token: "kind": locks. "whole": whoever weighs its own capacity

AllShapes == {<<"lock", 1, 1>>, <<"semaphore", 1, 1>>, <<"semaphore", 2, 2>>,
              <<"semaphore", 3, 1>>}

VARIABLES
  ticket, shape, \* of each claim; ticket 0 before it is made
  live,          \* the claims in the queue
  granted,       \* the claims that the engine ever granted
  inOrder,       \* whether all grants so far came in the order of tickets
  seen,          \* each client's snapshot
  holds          \* the clients that believe to hold

vars == <<ticket, shape, live, granted, inOrder, seen, holds>>

Kind(c) == shape[c][1]
Capacity(c) == shape[c][2]
Weight(c) == shape[c][3]
RECURSIVE Sum(_)
Sum(S) == IF S = {} THEN 0 ELSE LET c == CHOOSE c \in S : TRUE IN Weight(c) + Sum(S \ {c})
Oldest(S) == CHOOSE c \in S : \A d \in S : ticket[c] <= ticket[d]
UpTo(L, c) == {d \in L : ticket[d] <= ticket[c]}
Right(L, c) == Kinds = "none" \/ Kind(c) = Kind(Oldest(L))
Fit(L, c) == Right(L, c) /\ Sum(UpTo(L, c)) <= Capacity(c)
Rule(L) == {c \in L : IF InOrder THEN \A d \in UpTo(L, c) : Fit(L, d) ELSE Fit(L, c)}
Granted == Rule(live)

Init ==
  /\ ticket = [c \in Claims |-> 0] /\ shape = [c \in Claims |-> <<"none", 0, 0>>]
  /\ live = {} /\ granted = {} /\ inOrder = TRUE
  /\ seen = [c \in Claims |-> {}] /\ holds = {}

(* The queue has changed: write down whom the rule lets in now. *)
Book ==
  LET new == Rule(live)' \ granted
  IN /\ granted' = granted \cup new
     /\ inOrder' = (inOrder /\ \A c \in new, d \in granted : ticket'[d] < ticket'[c])

Join(c) ==
  /\ ticket[c] = 0
  /\ \E s \in Shapes :
       /\ Kinds = "atomic" => \A d \in live : Kind(d) = s[1]
       /\ shape' = [shape EXCEPT ![c] = s]
  /\ ticket' = [ticket EXCEPT ![c] = 1 + Cardinality({d \in Claims : ticket[d] > 0})]
  /\ live' = live \cup {c}
  /\ Book /\ UNCHANGED <<seen, holds>>

(* Resigned, refused or expired, holder or waiter: its client need not know. *)
Leave(c) ==
  /\ c \in live /\ live' = live \ {c} /\ UNCHANGED <<ticket, shape>>
  /\ Book /\ UNCHANGED <<seen, holds>>

Look(c) ==
  /\ c \in live /\ c \notin holds /\ seen' = [seen EXCEPT ![c] = live]
  /\ UNCHANGED <<ticket, shape, live, granted, inOrder, holds>>

(* Some time later the client evaluates the rule on what it saw. *)
Believe(c) ==
  /\ c \notin holds /\ seen[c] # {} /\ c \in Rule(seen[c])
  /\ holds' = holds \cup {c} /\ seen' = [seen EXCEPT ![c] = {}]
  /\ UNCHANGED <<ticket, shape, live, granted, inOrder>>

Next == \E c \in Claims : Join(c) \/ Leave(c) \/ Look(c) \/ Believe(c)
Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Claims)

HasToken(c) == IF TokenIf = "kind" THEN Kind(c) = "lock" ELSE Weight(c) = Capacity(c)

(* Never more than the largest capacity of a claim that is granted. *)
Fits == Granted # {} => \E c \in Granted : Sum(Granted) <= Capacity(c)
HeadGranted == live # {} => Oldest(live) \in Granted
NeverUngranted == granted \cap live \subseteq Granted
TicketOrder == inOrder
OldSnapshotsAreSafe == holds \cap live \subseteq Granted
(* Whoever has a fencing token holds alone. *)
TokenIsExclusive == \A c \in Granted : HasToken(c) => Granted = {c}
=============================================================================
