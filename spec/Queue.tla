------------------------------- MODULE Queue -------------------------------
(* One resource, its queue, and a guarded thing behind it.

   The rule: a claim is granted if and only if its weight plus the weights of all live claims ahead
   of it is at most the capacity. A client evaluates the rule on a snapshot of the queue, which may
   be old when it is used. Any claim may leave at any moment, resigned or expired, without its
   client knowing: so a client may act long after it has lost what it believes to hold.

   The guard keeps a mark. What may a shared holder (a reader) show it, and what may it leave? *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
  Claims,        \* each is made once
  Capacity,
  Weights,       \* what a claim may weigh; one that weighs the whole capacity is exclusive
  FloorIs,       \* what a reader seals with: "oldest" live claim of its snapshot, its "own" ticket,
                 \* or the ticket of the newest "writer" granted before it
  ReadersSeal,   \* whether a reader raises the mark to its floor before it works
  ReadersRaise   \* whether a reader's writes raise the mark to its ticket

VARIABLES
  ticket, weight, \* of each claim; 0 before it is made
  live,           \* the claims in the queue
  granted,        \* the claims that the engine ever granted
  inOrder,        \* whether all grants so far came in the order of tickets
  seen,           \* each client's snapshot
  holds,          \* the clients that believe to hold
  floor,          \* what each of them seals with
  sealed,         \* the holders that have sealed, and so have read
  mark,           \* of the guard
  intruded,       \* a write landed behind a later holder that it excludes
  crowded,        \* a write of a lost claim landed beside as many as the capacity allows
  refused         \* the guard refused a claim that was live

engine == <<ticket, weight, live, granted, inOrder>>
client == <<seen, holds, floor>>
guard == <<sealed, mark, intruded, crowded, refused>>
vars == <<engine, client, guard>>

RECURSIVE Sum(_, _)
Sum(S, wt) == IF S = {} THEN 0
              ELSE LET c == CHOOSE c \in S : TRUE IN wt[c] + Sum(S \ {c}, wt)
Rule(L, tk, wt) == {c \in L : Sum({d \in L : tk[d] <= tk[c]}, wt) <= Capacity}
Granted == Rule(live, ticket, weight)
Exclusive(c) == weight[c] = Capacity
Oldest(S) == CHOOSE c \in S : \A d \in S : ticket[c] <= ticket[d]
Max(a, b) == IF a > b THEN a ELSE b
NewestWriter(c) ==
  LET tickets == {ticket[d] : d \in {e \in granted : Exclusive(e) /\ ticket[e] < ticket[c]}}
  IN IF tickets = {} THEN 0 ELSE CHOOSE t \in tickets : \A u \in tickets : u <= t

Init ==
  /\ ticket = [c \in Claims |-> 0] /\ weight = [c \in Claims |-> 0]
  /\ live = {} /\ granted = {} /\ inOrder = TRUE
  /\ seen = [c \in Claims |-> {}] /\ holds = {} /\ floor = [c \in Claims |-> 0]
  /\ sealed = {} /\ mark = 0 /\ intruded = FALSE /\ crowded = FALSE /\ refused = FALSE

(* The queue has changed: write down whom the rule lets in now. *)
Book ==
  LET new == Rule(live', ticket', weight') \ granted
  IN /\ granted' = granted \cup new
     /\ inOrder' = (inOrder /\ \A c \in new, d \in granted : ticket'[d] < ticket'[c])

Join(c) ==
  /\ ticket[c] = 0
  /\ ticket' = [ticket EXCEPT ![c] = 1 + Cardinality({d \in Claims : ticket[d] > 0})]
  /\ \E w \in Weights : weight' = [weight EXCEPT ![c] = w]
  /\ live' = live \cup {c}
  /\ Book /\ UNCHANGED <<client, guard>>

(* Resigned or expired, holder or waiter: its client need not know. *)
Leave(c) ==
  /\ c \in live /\ live' = live \ {c} /\ UNCHANGED <<ticket, weight>>
  /\ Book /\ UNCHANGED <<client, guard>>

Look(c) ==
  /\ c \in live /\ c \notin holds /\ seen' = [seen EXCEPT ![c] = live]
  /\ UNCHANGED <<engine, holds, floor, guard>>

(* Some time later the client evaluates the rule on what it saw. *)
Believe(c) ==
  /\ c \notin holds /\ c \in Rule(seen[c], ticket, weight)
  /\ holds' = holds \cup {c} /\ seen' = [seen EXCEPT ![c] = {}]
  /\ floor' = [floor EXCEPT ![c] = CASE Exclusive(c) \/ FloorIs = "own" -> ticket[c]
                                     [] FloorIs = "oldest" -> ticket[Oldest(seen[c])]
                                     [] FloorIs = "writer" -> NewestWriter(c)]
  /\ UNCHANGED <<engine, guard>>

Shows(c) == IF ~Exclusive(c) /\ FloorIs = "writer" THEN floor[c] ELSE ticket[c]
Refuse(c) == refused' = (refused \/ c \in live) /\ UNCHANGED <<mark, sealed, intruded, crowded>>

Seal(c) ==
  /\ c \in holds \ sealed /\ (Exclusive(c) \/ ReadersSeal)
  /\ IF Shows(c) < mark THEN Refuse(c)
     ELSE /\ mark' = Max(mark, floor[c]) /\ sealed' = sealed \cup {c}
          /\ UNCHANGED <<intruded, crowded, refused>>
  /\ UNCHANGED <<engine, client>>

Write(c) ==
  /\ c \in holds /\ (c \in sealed \/ ~(Exclusive(c) \/ ReadersSeal))
  /\ IF Shows(c) < mark THEN Refuse(c)
     ELSE /\ mark' = IF Exclusive(c) \/ ReadersRaise THEN Max(mark, Shows(c)) ELSE mark
          /\ intruded' = (intruded \/ \E d \in sealed : /\ ticket[d] > ticket[c]
                                                        /\ weight[d] + weight[c] > Capacity)
          /\ crowded' = (crowded \/ /\ c \notin live
                                    /\ Sum(sealed \cap live, weight) + weight[c] > Capacity)
          /\ UNCHANGED <<sealed, refused>>
  /\ UNCHANGED <<engine, client>>

Next == \E c \in Claims : Join(c) \/ Leave(c) \/ Look(c) \/ Believe(c) \/ Seal(c) \/ Write(c)
Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Claims)

(* The rule. *)
Fits == Sum(Granted, weight) <= Capacity
HeadGranted == live # {} => Oldest(live) \in Granted
NeverUngranted == granted \cap live \subseteq Granted
TicketOrder == inOrder
OldSnapshotsAreSafe == holds \cap live \subseteq Granted

(* The guard. *)
Fenced == ~intruded
PermitsFenced == ~crowded
RightfulAdmitted == ~refused
=============================================================================
