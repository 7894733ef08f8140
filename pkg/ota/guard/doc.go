// Package guard decides who gets to the node's endpoint (package ota), and how
// much of it one caller can take. Every edge node runs it, next to workloads that
// are not trusted, so each way in is a Door with rules of its own:
//
//	                          socket                          TCP
//	who                       root, and the members of one    who has the token; with --ota-auth=none
//	                          group (SO_PEERCRED)             everybody on the node
//	where                     a file of mode 0600 or 0660     loopback; elsewhere only with token and TLS
//	Host header               any                             localhost, the address, names that were given
//
// A request passes, in this order; the first that refuses answers:
//
//	connection    at most MaxConnections a door: one more waits for room, or takes
//	              the place of one that was not let in within 100 ms
//	Host          421: a name that somebody points at this address (DNS rebinding)
//	origin        403: a browser that shows a page of somebody else
//	caller        401 or 403; GET /healthz needs none
//	handler       bodies are read here, after it is known who sends them
//
// So a flood of slow connections costs the flood its own connections, and who may
// call gets through. The socket and TCP do not share theirs.
package guard
