// Package answer is what the node's endpoint answers below /v1, as openapi.yaml describes
// it, in the words for a person. It is pure: what is in the journals of the node and what
// was seen of it in, answers out.
package answer
