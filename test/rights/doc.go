// Package rights tests the rights of a node agent, on a real API server with the
// shipped config/default and tokens issued by the API server: the agents' role in
// config/rbac, and the policy in config/admission that restricts each agent to its own
// node. The agent is the real program; the others are clients with tokens.
//
// To test that the policy rejects a request, and not the role, the agent is
// impersonated with a group that has all rights.
package rights
