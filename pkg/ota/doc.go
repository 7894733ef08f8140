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
// # Routes
//
//	GET  /healthz                                           200 ok: the process serves
//	GET  /pods                                              200 v1 PodList of this node's pods; 503
//	POST /openyurt.io/v1/namespaces/{ns}/pods/{pod}/upgrade 200 Start updating pod ns/pod; 400, 403, 404, 429, 500, 503
//
// Any other path is 404, any other method 405 with Allow, a body of more than
// 64 KiB 413. Error answers are one line of plain text that says what to do.
// The status of each Reason is in routes.go.
//
// # Files
//
//	decide.go, entries.go         pure: may this pod be asked for; which requests are kept
//	inbox.go, sync.go             observe, decide, journal, apply; once per POST and in a loop
//	journal.go                    the kind of its journal: one file per request (pkg/journal)
//	cluster.go                    what is needed of the API server (pkg/nodeapi)
//	routes.go, server.go          HTTP
package ota
