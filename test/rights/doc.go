// Package rights tests what a node agent may do in a cluster, on a real API server
// with config/default as it is shipped and tokens as the API server issues them: the
// role of the agents in config/rbac, and the policy in config/admission that keeps each
// agent to its own node. The agent is the program; the others are clients with tokens.
//
// Where it matters that the policy refuses, and not the role, the agent is impersonated
// in a group that may do everything.
package rights
