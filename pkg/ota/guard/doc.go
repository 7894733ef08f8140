// Package guard controls access to the node's endpoint (package ota) and limits how much of
// it one caller can use. It runs on every edge node, next to untrusted workloads, so each
// way in is a Listener with rules of its own:
//
//	                          socket                          TCP
//	who                       root and the members of one     holders of the token; with --ota-auth=none
//	                          group (SO_PEERCRED)             anyone on the node
//	where                     a file of mode 0600 or 0660     loopback; elsewhere only with token and TLS
//	Host header               any                             localhost, the bound address, configured names
//
// A request passes these checks in order; the first that fails determines the response:
//
//	connection    at most MaxConnections per listener: another one waits for room, or evicts
//	              one that sent no authorized request within 100 ms
//	Host          421: a foreign name for this address (DNS rebinding)
//	origin        403: cross-origin requests from browsers
//	caller        401 or 403; GET /healthz needs no authentication
//	handler       reads bodies only after authentication
//
// So a flood of slow connections only displaces its own connections, and authorized callers
// still get through. The socket and TCP have separate limits.
//
// Anyone on the node may listen on the agent's port before it does: the socket serves anyway,
// the agent waits for its port (Port), and a client asks for a proof (package proof) before it shows the token.
package guard
