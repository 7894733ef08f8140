// Package upgradeapi is the REST API of gcu-upgrade-manager, served by the manager on port
// 32765 (contract section 2.6): it lists, shows, upgrades and deletes GcuResources for
// users with curl but without kubectl.
//
// Most requests are one read or one write of the cluster. An upgrade in place writes a new
// spec, which the operator rolls out. Only an upgrade that deletes a gr and creates it
// again takes several writes: it is stored before the first of them, and the leader
// completes it even if the process that accepted it dies:
//
//	PUT mode recreate     GcuResourceRecreation         gr              Recreator, on the leader
//	    | check by a dry run       |                     |                    |
//	    |--- store the new gr ---->|------- watch ------------------------->  |
//	    |--- delete the old one, by its UID ------------>|                    |
//	    |<-- Success                                     | gone               |
//	                               |<----- read ------------------------------|
//	                                                     |<---- create -------|
//	                               |<-- store the UID of the new gr ----------|
//	                                                     | Running            |
//	                               |<------------- delete --------------------|
//
// Without authentication all callers are one user (Options.Anonymous), who brings no spec of their own.
//
// The next step is derived from the state of the cluster each time (package recreation).
// Until the new gr is created, other changes of the gr are rejected with 409.
//
// Each upgrade states its own limit, in the request or in the blueprint's annotation
// upgrade-only; without one it includes everything. The Planner makes plans with the
// decisions of the rollout itself.
//
// A gr and its DaemonSets are served from the manager's cache, so that many readers do not
// load the API server. Objects that the cache lacks, and for a while those written here,
// are read from the API server, and so is everything on which a decision depends.
//
// # Routes
//
// All under /gum/v1, with an optional trailing slash. {kind} is driver, toolkit, plugin (or
// devicePlugin), exporter or gfd.
//
//	GET    /gr                       List      all grs
//	GET    /gr/{name}                Get       the gr
//	GET    /gr/{name}/resource/{kind} Get      the DaemonSet of a component
//	GET    /gr/{name}/rollout        Get       the DaemonRollout
//	GET    /gr/{name}/revisions      List      the kept specs, newest first
//	GET    /gr/{name}/plan           Plan      what is left to do; with ?file=&nodes=&components=&all=&approved=: an upgrade
//	POST   /gr/{name}/plan           Plan      what a PUT with this body would do
//	PUT    /gr/{name}                Upgrade   {"file": "gr.json"} or {"spec": {...}}, "mode": inPlace or recreate,
//	                                           "nodes", "components": [...] or "all": the limit of the upgrade
//	DELETE /gr/{name}                Delete    {"policy": background or foreground}
//	PUT    /gr/{name}/plan           Upgrade   a plan file, YAML or JSON, that the gr follows; ?step=true: batch by batch
//	GET    /gr/{name}/plan/file      Plan      the plan as such a file; ?format=yaml, and ?file=&nodes=&components=&all=
//	POST   /gr/{name}/plan/file      Plan      the same for what a PUT with this body would do
//	GET    /gr/{name}/plan/results   List      the stored plans with {done, fail, undo} of the fleet, newest first
//	GET    /gr/{name}/plan/results/{plan} Get  one of them, with the results of nodes and tasks
//	POST   /gr/{name}/rollback       Rollback  {"to": "previous" or a revision}
//	POST   /gr/{name}/pause          Pause
//	POST   /gr/{name}/resume         Resume    removes a pause, clears the failures of a halt
//	GET    /openapi.yaml             the OpenAPI document
//
// With ?dryRun=true, the API server validates a change without storing it. Every response
// but the OpenAPI document and a plan file as YAML is an envelope (envelope.go):
//
//	{"operation": ..., "result": "Success", "content": ...} or {..., "result": "Failed", "error": ...}
//
// 400 invalid request · 401, 403 not authenticated, not allowed · 404 · 405 with Allow ·
// 409 another upgrade, a rollback, a deletion or a concurrent change of the gr, a plan that
// does not fit the cluster · 413, 422
// too large, rejected by the API server or its admission · 421 a foreign Host header · 429 too many requests · 500, 502, 503, 504
// failures of the API server or the manager.
//
// # Bounds
//
// Headers, bodies, connections and responses have timeouts and size limits (server.go); connections are
// bounded, and those without an authorized request make room for others (package connections);
// each user has a rate limit, and all who are not authenticated have one together (ratelimit.go), which does not
// keep out a token that was valid before (admission.go); the bodies
// in memory are bounded in total and per caller, and a GET has none, and so are responses until they are sent (bodies.go); a request that may come from a page
// of another site is refused, by its Host or Origin (serve.go); plans are computed, and their results read, one at a time, few wait, and
// they delay no upgrade (resolve.go); a blueprint is a regular file of at most 1
// MiB in one directory (blueprintdir.go), without YAML aliases and unknown fields (package
// request).
//
// # Files
//
//	server.go, readyz.go                  port, TLS, readiness: the port is open, and grs are served
//	routes.go, api.go                     the paths and their handlers
//	serve.go, bodies.go, envelope.go      what all requests share, and the response
//	read.go, plan.go, upgrade.go,         the handlers; package request decides what a change
//	delete.go, rolloutcontrol.go          makes of a gr, and what is refused
//	planfile.go, planresult.go            plans as files, by the rules of package planfile, and their results
//	resolve.go, query.go, blueprintdir.go the input of an upgrade: the gr, its blueprint, its limit
//	recreator.go                          completes accepted upgrades, by the steps of package recreation
//	admission.go, access.go, ratelimit.go authentication, authorization, rate limits
//	paths.go                              the same for other handlers of the manager: its metrics
//	cluster.go, cache.go                  the API server, and the manager's cache
//	call.go, kinds.go                     a request as handlers get it, and the kinds
package upgradeapi
