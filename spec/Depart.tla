------------------------------- MODULE Depart -------------------------------
(* Release on disconnect. A replica that has seen a connection end removes the lease Grace later. The
   client may be alive, may not know that the connection has ended, and may be at another replica. A
   replica may be paused at any point: what it has read goes on to the engine later.

   One claim. Connections 1 and 3 lead to one replica, 2 to another one. *)
EXTENDS Integers

CONSTANTS
  TTL, Grace,  \* Grace < TTL
  End, Most,   \* the clock stops here; how many renewals the client sends
  Rule,        \* a departure ends the lease "always"; unless the engine has heard of it since the replica
               \* last did so ("unless-renewed"); if it belongs to the connection ("connection"); or the
               \* same, but "apart": the replica reads that, and then removes
  Count,       \* the client counts on the "whole" lease, or for "grace" from a renewal that was answered
  Attach,      \* a renewal tells the engine its connection "first", or "after" it was applied
  Waiter,      \* it is a waiter's claim, which counts again after its time, if the engine still has it
  Memory       \* a replica answers a renewal by itself if it was answered by the engine on the same
               \* "connection", for the same "client", or "never"

VARIABLES
  now,
  there, expires,  \* the engine's lease
  heard,           \* how often the engine has heard of it
  owner,           \* the connection that it belongs to: the highest that has attached it
  conn,            \* the client's connection
  frames,          \* renewals in the buffers of replicas, or on their way to the engine
  sent,
  until,           \* the client counts on the lease until then
  known,           \* for each connection: until when the engine keeps the lease, as its replica knows
  last,            \* what `heard` was when the engine answered last on it
  closed,          \* when its replica saw it end, -1 before
  departures       \* on their way to the engine; "read": what the replica has read of the owner

vars == <<now, there, expires, heard, owner, conn, frames, sent, until, known, last, closed, departures>>
engine == <<there, expires, heard, owner>>
client == <<conn, sent, until>>
Conns == 1..3
Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b

Init == /\ now = 0 /\ there = TRUE /\ expires = TTL /\ heard = 1 /\ owner = 1
        /\ conn = 1 /\ frames = {} /\ sent = 0
        /\ until = IF Count = "grace" THEN Grace ELSE TTL
        /\ known = [c \in Conns |-> IF c = 1 THEN TTL ELSE 0]
        /\ last = [c \in Conns |-> IF c = 1 THEN 1 ELSE 0]
        /\ closed = [c \in Conns |-> -1] /\ departures = {}

Believes == now < until
Wants == Believes \/ Waiter

Tick == /\ now < End /\ now' = now + 1 /\ there' = (there /\ expires > now + 1)
        /\ UNCHANGED <<expires, heard, owner, client, frames, known, last, closed, departures>>
Renew == /\ Wants /\ sent < Most /\ sent' = sent + 1
         /\ frames' = frames \cup {[conn |-> conn, at |-> now, attached |-> FALSE, left |-> -1]}
         /\ UNCHANGED <<now, engine, conn, until, known, last, closed, departures>>
Move == /\ Wants /\ conn < 3 /\ conn' = conn + 1
        /\ UNCHANGED <<now, engine, frames, sent, until, known, last, closed, departures>>

(* The reply to a renewal: the client reads it if the connection is still there at both ends. *)
Answer(f, left) ==
  \E lost \in BOOLEAN :
    until' = IF lost \/ f.conn # conn \/ ~Wants \/ closed[f.conn] >= 0 THEN until
             ELSE Max(until, f.at + IF Count = "grace" THEN Min(left, Grace) ELSE left)

(* The engine stores whose the lease is. A renewal of an earlier connection goes no further. *)
Attached(f) ==
  /\ ~f.attached /\ (Attach = "first" \/ f.left >= 0)
  /\ owner' = Max(owner, f.conn)
  /\ IF Attach = "after"
     THEN frames' = frames \ {f} /\ Answer(f, f.left)
     ELSE /\ frames' = (frames \ {f}) \cup IF f.conn < owner THEN {} ELSE {[f EXCEPT !.attached = TRUE]}
          /\ UNCHANGED until
  /\ UNCHANGED <<now, there, expires, heard, conn, sent, known, last, closed, departures>>
Renewed(f) ==
  /\ f.attached = (Attach = "first") /\ f.left < 0
  /\ IF there
     THEN /\ expires' = Max(expires, now + TTL) /\ heard' = IF Rule = "unless-renewed" THEN heard + 1 ELSE heard
          /\ known' = IF Memory = "never" THEN known ELSE [known EXCEPT ![f.conn] = expires']
          /\ last' = [last EXCEPT ![f.conn] = heard']
          /\ IF Attach = "after"
             THEN frames' = (frames \ {f}) \cup {[f EXCEPT !.left = expires' - now]} /\ UNCHANGED until
             ELSE frames' = frames \ {f} /\ Answer(f, expires' - now)
     ELSE frames' = frames \ {f} /\ UNCHANGED <<expires, heard, known, last, until>>
  /\ UNCHANGED <<now, there, owner, conn, sent, closed, departures>>

(* The replica answers by itself, and may also send the renewal to the engine. *)
Remembered(c) == IF Memory = "client" /\ c = 3 THEN Max(known[1], known[3]) ELSE known[c]
Recalled(f) ==
  /\ Memory # "never" /\ ~f.attached /\ f.left < 0 /\ closed[f.conn] < 0
  /\ Remembered(f.conn) > now
  /\ Answer(f, Remembered(f.conn) - now) /\ frames' \in {frames, frames \ {f}}
  /\ UNCHANGED <<now, engine, conn, sent, known, last, closed, departures>>

(* The end of a connection is seen: rightly, or because something in between has cut it. *)
Close(c) == /\ c <= conn /\ closed[c] < 0 /\ closed' = [closed EXCEPT ![c] = now]
            /\ UNCHANGED <<now, engine, client, frames, known, last, departures>>
Due(c) == /\ closed[c] >= 0 /\ now >= closed[c] + Grace /\ ~\E d \in departures : d.conn = c
          /\ departures' = departures \cup {[conn |-> c, last |-> last[c], read |-> IF Rule = "apart" THEN owner ELSE 0]}
          /\ UNCHANGED <<now, engine, client, frames, known, last, closed>>
Depart(d) == /\ there' = (there /\ ~CASE Rule = "always" -> TRUE
                                      [] Rule = "unless-renewed" -> heard = d.last
                                      [] Rule = "connection" -> owner = d.conn
                                      [] Rule = "apart" -> d.read = d.conn)
             /\ UNCHANGED <<now, expires, heard, owner, client, frames, known, last, closed, departures>>

Next == \/ Tick \/ Renew \/ Move
        \/ \E f \in frames : Attached(f) \/ Renewed(f) \/ Recalled(f)
        \/ \E c \in Conns : Close(c) \/ Due(c)
        \/ \E d \in departures : Depart(d)
Spec == Init /\ [][Next]_vars

Kept == Believes => there
=============================================================================
