// Package response builds the responses of the node's endpoint below /v1, as openapi.yaml
// describes them. It is pure: the input is the node's journals and observed state.
package response

// PodHeader is the header of GET /healthz with the UID of the pod whose agent responds.
const PodHeader = "Gcu-Pod"
