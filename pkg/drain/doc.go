// Package drain empties one node of the pods that use its accelerator, one pass
// at a time, and cordons it meanwhile (design section 4). It has no controller
// and remembers nothing: who runs a node's job calls it, and keeps what a pass
// returns for the next one.
//
//	Cordon ─► Pass ─┬─ done ──────► (the driver) ─► Uncordon
//	           ▲    ├─ not done    after a while, or when a pod goes
//	           └────┤
//	                └─ out of time ► Uncordon; the node is tried again later
//
//	Sweep, at the start and now and then: uncordon what dead operations left
//
// # Cordon
//
// A cordon and its mark, the annotation topsops.enflame.com/cordoned-by with the
// id of the operation, are written and removed in one patch that fails when the
// node changed since it was read. So there is no moment at which a node is
// cordoned by us without saying for whom, and Sweep can tell what is left over.
//
// The mark does not prove that the cordon is ours: a person may have uncordoned
// the node and cordoned it again. Who last changed spec.unschedulable is in
// metadata.managedFields, so FactsOf looks there. What cannot be seen is a person
// who runs kubectl cordon on a node that we cordoned: kubectl writes nothing.
//
//	unschedulable  mark   set by     Cordon              Uncordon
//	no             -                 cordon, mark        -
//	yes            -                 - (foreign)         - (foreign)
//	yes            ours   us         -                   uncordon, unmark
//	yes            ours   other      - (foreign)         unmark (foreign)
//	no             ours              cordon, mark        unmark
//	any            other operation   - (held)            - (held)
//
// # Pass
//
// A pass observes (Observe), decides (Decide, pure), evicts, and returns what
// became of each pod as a Result. It sleeps never and starts nothing that
// outlives it. A pod is in one state:
//
//	not its business   on another node, finished, or not in the policy's scope
//	skipped            the operator itself, left by podSelector, of a DaemonSet, static
//	unconfirmed        the node is not Ready: nothing is evicted, nothing believed
//	terminating        asked before, and not gone yet
//	running            of a Job that is left to complete
//	blocked            an eviction loses something that the policy keeps
//	due                an eviction has not been tried yet (only Look shows it)
//	evicted, refused, gone, failed
//	                   what the API server said to an eviction, with the pod's UID
//	                   as precondition; not asked again within RetryInterval
//
// What an eviction loses, and which pods stay, is for kubectl's drain filters to
// say; of that library nothing else is used: its loops wait, and its cordon has
// no precondition. The node is empty when all that is left is skipped.
package drain
