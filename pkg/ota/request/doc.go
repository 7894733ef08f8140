// Package request decides about the requests and operations of one node. It is pure: the
// input is what was observed and journaled, the output what to journal and submit.
//
// # Life of a request
//
//	(POST) --> open --> Done    a new POST for the same pod and revision is another
//	                \-> Failed  request, with the next attempt in its id
//
// The id is derived from the pod's UID and the revision, so repeated and parallel POSTs are
// one request. Finished requests are kept for people to read, up to 20 requests in all;
// open ones are never dropped, and at most 64 may be open. A finished request whose task
// has disappeared is dropped, and never repeated. An agent that lost its journal restores
// it from status.requests.
//
// # Operations
//
// An operation of /v1 is a set of such requests with one id. Once accepted it is journaled, and
// then sent to the operator: at once, or when the API server is available again.
//
//	(POST) --> Queued --> Waiting --> Running --> Done, Failed
//	              |         \-> Withdrawn: confirmed by the operator
//	              \--> Dropped: its pod was replaced or another revision is the newest,
//	                   unless it requested the latest revision; or the node was held
//
// A node has one operation at a time. Its state is computed from status.tasks, its task and
// progress from status.operation; only final states are journaled. Requests that the
// NodeUpgrade shows are kept, so an agent may be killed between any two of these writes.
//
// # Files
//
//	decide.go        whether the upgrade of a pod may be requested
//	requests.go      which requests are kept and submitted
//	begin.go             which pods an operation upgrades
//	operations.go    the state of an operation
//	requestparts.go  makes the requests for the parts of an operation that still apply
//	withdraw.go      what can be withdrawn
//	pulls.go         the state of pulls of images
//	node.go          the observed state of the node
//	refusal.go       the errors for refused callers
package request
