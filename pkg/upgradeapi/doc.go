// Package upgradeapi is the REST API of gcu-upgrade-manager, served by the
// manager on port 32765 (contract section 2.6): it lists, shows, upgrades and
// deletes GcuResources for people who have curl and no kubectl.
//
// Every request is one read or one write of the cluster, as far as it can be.
// An upgrade in place is a new spec: the operator rolls it. The one thing that
// takes several writes, an upgrade that deletes a gr and creates it again, is
// stored before the first of them, and finished by the leader whatever happens
// to the process that accepted it:
//
//	PUT mode recreate          ConfigMap                gr              Recreator, on the leader
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
// What comes next is read from facts at each look (package recreation). Until the new
// gr was created nothing else may change the gr: 409.
//
// What an upgrade is limited to is said anew by each: in the request, or in the blueprint's
// annotation upgrade-only; absent means all. A plan is made by the Planner, which decides
// with what the rollout decides with.
//
// A gr and its DaemonSets are shown from the manager's cache, so that many readers
// cost the API server nothing; past it what the cache lacks, and for a while what
// was written here. Everything that decides reads from the API server.
//
// # Routes
//
// All under /gum/v1, with or without a slash at the end. {kind} is driver, toolkit,
// plugin (or devicePlugin), exporter or gfd.
//
//	GET    /gr                       List      all grs
//	GET    /gr/{name}                Get       the gr
//	GET    /gr/{name}/resource/{kind} Get      the DaemonSet of a component
//	GET    /gr/{name}/rollout        Get       the DaemonRollout
//	GET    /gr/{name}/revisions      List      the specs that are kept, the newest first
//	GET    /gr/{name}/plan           Plan      what is still to be done; ?file=&nodes=&components=&all=&approved=: an upgrade
//	POST   /gr/{name}/plan           Plan      what a PUT with this body would do
//	PUT    /gr/{name}                Upgrade   {"file": "gr.json"} or {"spec": {...}}, "mode": inPlace or recreate,
//	                                           "nodes", "components": [...] or "all": what it is limited to
//	DELETE /gr/{name}                Delete    {"policy": background or foreground}
//	POST   /gr/{name}/rollback       Rollback  {"to": "previous" or a revision}
//	POST   /gr/{name}/pause          Pause
//	POST   /gr/{name}/resume         Resume    a pause is over, the failures of a halt are cleared
//	GET    /openapi.yaml             this API, for programs
//
// ?dryRun=true on what changes something: the API server checks and stores nothing.
// Every answer but the last is an envelope (envelope.go):
//
//	{"operation": ..., "result": "Success", "content": ...} or {..., "result": "Failed", "error": ...}
//
// 400 the request makes no sense · 401, 403 who calls, what they may do · 404 · 405 with Allow ·
// 409 another upgrade, a rollback, a deletion or somebody else is at the gr · 413, 422 too large, refused by the API server ·
// 429 too often · 500, 502, 503, 504 the API server or the manager has trouble.
//
// # Bounds
//
// Headers, bodies, connections and answers have timeouts and sizes (server.go); each
// caller has a rate (ratelimit.go); a blueprint is a regular file of at most 1 MiB in one
// directory (blueprintdir.go), without YAML aliases and unknown fields (package request).
//
// # Files
//
//	server.go, readyz.go                  port, TLS, readiness: the port is open, and grs are served
//	routes.go, api.go                     the paths, and what answers them
//	serve.go, envelope.go                 what each request goes through, and its answer
//	read.go, plan.go, upgrade.go,         what each route does; package request decides what is
//	delete.go, rolloutcontrol.go          made of a gr, and what is refused
//	resolve.go, query.go, blueprintdir.go what an upgrade is about: the gr, its blueprint, its limit
//	recreator.go                          finishes what was accepted, step by step as package recreation says
//	access.go, ratelimit.go               who may call, how often
//	cluster.go, cache.go                  the API server, and the manager's cache
//	call.go, kinds.go                     a request as the routes get it, and the kinds
package upgradeapi
