// Package nodeapi is the node agent's one connection to the API server: live
// reads, server-side apply of the parts of a NodeUpgrade that the agent writes,
// and one watch of the node's NodeUpgrade for all who wait for it. The packages
// that use it declare what they need; cmd/node-agent puts them together.
package nodeapi
