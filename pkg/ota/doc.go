// Package ota is the node's own endpoint: the person at a node asks here that a
// pod of a DaemonSet on this node be replaced by its newest revision.
//
// The agent holds no right to delete a pod. A POST is a request: it is decided
// from the live pod, journaled on this node's disk, and shown to the operator
// in status.requests of the NodeUpgrade named after the node. The operator
// grants a slot, replaces the pod and answers in status.tasks.
//
//	curl -X POST            Inbox.Ask                    API server            operator
//	     |                     |                             |                     |
//	     |--- upgrade -------->| read NodeUpgrade, Node, Pod |                     |
//	     |                     |<--------------------------->|                     |
//	     |                     | decide, admit (pure)        |                     |
//	     |                     | journal: fsync, rename      |                     |
//	     |                     |--- apply status.requests -->|--- watch ---------->|
//	     |<-- 200 Start ... ---|                             |<-- status.tasks ----|
//	     |                     |<-------- watch -------------|                     |
//	     |                     | outcome into the journal    |                     |
//
// When the last step before the answer fails, the request leaves the journal
// again and the answer is 503: either the wish is kept or the caller is told
// that it is not. An agent killed in between finds the request in its journal
// and goes on with it.
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
// # Hold
//
// A held node is left alone by the rollouts (status.agent.hold). The wish is on the disk
// first; if that was lost it is taken over from the NodeUpgrade.
//
// # Routes
//
//	GET  /healthz                                             200 ok: the process serves
//	GET  /pods                                                200 v1 PodList of this node's pods, with PodImageReady; 503
//	POST /openyurt.io/v1/namespaces/{ns}/pods/{pod}/upgrade   200 Start updating pod ns/pod; 400, 403, 404, 429, 500, 503
//	POST /openyurt.io/v1/namespaces/{ns}/pods/{pod}/imagepull 200 Image pre-pull requested for pod ns/pod; the same
//	/v1/...                                                   JSON, described in openapi.yaml
//
// Any other path is 404, any other method 405 with Allow, a body of more than
// 64 KiB 413. Error answers are one line of plain text that says what to do, below /v1
// a problem (RFC 9457). The status of each Reason is in problem.go. Who gets this far,
// package guard says.
//
// While the API server is away GET /pods shows what was last seen, with a Warning header.
//
// # Files
//
//	decide.go, entries.go         pure: may this pod be asked for; which requests are kept
//	components.go, operations.go, ask.go   pure: what is on the node; how an operation stands;
//	                              what of it is still to be asked for
//	inbox.go, observe.go, wishes.go, sync.go   observe, decide, journal, apply; once per POST and in a loop
//	snapshot.go                   what is seen of the node, kept for when the API server is away
//	withdraw.go                   takes back what has not started
//	images.go                     pulls of images that were asked for
//	journal.go, book.go           the journals: requests, operations and the hold (pkg/journal)
//	board.go                      what can be read while somebody else has the turn
//	cluster.go                    what is needed of the API server (pkg/nodeapi)
//	routes.go, v1.go, problem.go, answers.go, server.go   HTTP
package ota
