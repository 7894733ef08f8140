// Package request decides about the requests and operations of one node. It is pure: what
// was seen and what was journaled in, what is to be journaled and shown out.
//
// # Life of a request
//
//	(POST) --> open --> Done    a new POST for the same pod and revision asks again,
//	                \-> Failed  with the next attempt in its id
//
// The id comes from the pod's UID and the revision, so repeated and parallel
// POSTs are one request. Finished requests are kept for people to read, up to
// 20 requests in all; open ones are never dropped, and at most 64 may be open.
// A request seen finished whose task has disappeared is dropped, never asked
// again. An agent that lost its journal takes over what status.requests says.
//
// # Operations
//
// An operation of /v1 is a set of such requests with one id. One that is accepted is in
// the journal first, and then told to the operator: at once, or when the API server can
// be used again.
//
//	(POST) --> Queued --> Waiting --> Running --> Done, Failed
//	              |         \-> Withdrawn: taken back, and the operator says in time
//	              \--> Dropped: its pod or its newest revision is another one by now,
//	                   unless it asked for the latest; or the node was held
//
// There is one at a time. Its state is computed from status.tasks, its task and progress
// from status.operation; only what is final is kept. What the operator shows of it stays
// asked for, so an agent may be killed between any two of these writes.
//
// # Files
//
//	decide.go        may the upgrade of this pod be requested
//	requests.go      which requests are kept, and shown
//	order.go, begin.go   which pods an order upgrades
//	operations.go    how an operation stands
//	requestparts.go  makes the requests of an operation, of what still holds
//	withdraw.go      what can be withdrawn
//	pulls.go         how pulls of images stand
//	node.go          what was seen of the node
//	refusal.go       what a refused caller is told
package request
