// Package nodeapi is the node agent's one connection to the API server: live reads,
// server-side apply of the agent's parts of a NodeUpgrade, and one watch of the node's
// NodeUpgrade, shared by all listeners. The packages that use it declare interfaces;
// cmd/node-agent connects them.
package nodeapi
