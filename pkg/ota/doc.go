// Package ota is the inbox of the node's own endpoint: the person at a node asks here that
// a pod of a DaemonSet on this node be replaced by its newest revision.
//
// The agent holds no right to delete a pod. A POST is a request: it is decided
// from the live pod, journaled on this node's disk, and shown to the operator
// in status.requests of the NodeUpgrade named after the node. The operator
// grants a slot, replaces the pod and answers in status.tasks.
//
//	curl -X POST            Inbox.UpgradePod             API server            operator
//	     |                     |                             |                     |
//	     |--- upgrade -------->| read NodeUpgrade, Node, Pod |                     |
//	     |                     |<--------------------------->|                     |
//	     |                     | Decide, Admit (pure)        |                     |
//	     |                     | journal: fsync, rename      |                     |
//	     |                     |--- apply status.requests -->|--- watch ---------->|
//	     |<-- 200 Start ... ---|                             |<-- status.tasks ----|
//	     |                     |<-------- watch -------------|                     |
//	     |                     | outcome into the journal    |                     |
//
// When the last step before the answer fails, the request leaves the journal
// again and the answer is 503: either the request is kept or the caller is told
// that it is not. An agent killed in between finds the request in its journal
// and goes on with it.
//
// # Hold
//
// A held node is left alone by the rollouts (status.agent.hold). The hold is on the disk
// first; if that was lost it is taken over from the NodeUpgrade.
//
// # Packages
//
//	guard      who may call
//	endpoint   HTTP: routes, bodies, and which status a refusal is answered with
//	request    pure: what may be requested, and how requests and operations stand
//	answer     pure: the answers below /v1
//
// # Files
//
//	inbox.go                      puts the Inbox together
//	podrequest.go                 a POST of OpenYurt: the upgrade of a pod, or the pull of its images
//	upgrade.go, withdraw.go, hold.go   a POST of /v1: an operation, its withdrawal, the hold
//	view.go                       GET: the pods and the status of this node
//	loop.go                       reconciles whenever something may have changed
//	reconcile.go                  observe, decide, journal, apply: for who has the turn
//	nodeupgrade.go                reads, creates and applies the NodeUpgrade
//	node.go                       reads the pods of this node, and keeps them for when the API server is away
//	images.go                     pulls of images that were asked for
//	journal.go                    the journals: requests, operations and the hold (pkg/journal)
//	latest.go                     what can be read while somebody else has the turn
//	options.go                    what is needed of the API server (pkg/nodeapi) and of the container runtime
package ota
