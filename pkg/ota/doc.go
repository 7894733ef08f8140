// Package ota is the inbox of the node's own endpoint: requests made on a node to replace a
// pod of a DaemonSet there by its newest revision.
//
// The agent has no permission to delete pods. A POST creates a request: it is decided from
// the live pod, journaled on this node's disk, and submitted to the operator in status.requests
// of the NodeUpgrade named after the node. The operator grants a slot, replaces the pod and
// answers in status.tasks. A POST of /v1/upgrade is journaled as an operation, whose requests
// follow when the node is reconciled.
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
// When the API server rejects the last step before the response, the request is removed from the
// journal again. When it does not respond to that step, it may have carried it out, and the request is
// kept. The response is 503 either way, and states whether the request is kept.
// An agent killed in between finds the request in its journal and continues with it.
//
// # Hold
//
// A hold excludes the node from upgrades (status.agent.hold). It is written to disk first;
// if the disk lost it, it is restored from the NodeUpgrade.
//
// # Packages
//
//	guard      authenticates callers and limits connections
//	endpoint   HTTP: routes, bodies, and the status of each refusal
//	records    the journals: requests, operations and the hold (pkg/journal)
//	request    pure: what may be requested, and the states of requests and operations
//	response   pure: the responses below /v1
//
// # Files
//
//	inbox.go                      assembles the Inbox
//	podrequest.go                 a POST of OpenYurt: the upgrade of a pod, or the pull of its images
//	upgrade.go, withdraw.go, hold.go   a POST of /v1: an operation, its withdrawal, the hold
//	status.go                     GET: the pods and the status of this node
//	loop.go                       reconciles whenever something may have changed
//	reconcile.go                  observe, decide, journal, apply: for the holder of the lock
//	nodeupgrade.go                reads, creates and applies the NodeUpgrade
//	node.go                       reads the pods of this node, and keeps them for use without the API server
//	images.go                     requested pulls of images
//	latest.go                     what can be read while another goroutine has the lock
//	options.go                    the API server (pkg/nodeapi) and the container runtime, as interfaces
package ota
