// Package endpoint is the HTTP surface of the node's endpoint: routes, bodies, and the
// status of each refusal. A Backend carries out the requests.
//
//	GET  /healthz                                             200 ok: the process serves; Gcu-Pod: its pod
//	GET  /pods                                                200 v1 PodList of this node's pods, with PodImageReady; 503
//	POST /openyurt.io/v1/namespaces/{ns}/pods/{pod}/upgrade   200 Start updating pod ns/pod; 400, 403, 404, 429, 500, 503
//	POST /openyurt.io/v1/namespaces/{ns}/pods/{pod}/imagepull 200 Image pre-pull requested for pod ns/pod; the same
//	/v1/...                                                   JSON, described in openapi.yaml
//
// Any other path is 404, any other method 405 with Allow, a body of more than 64 KiB 413.
// Error responses are one line of plain text that states what to do, below /v1 a problem
// (RFC 9457). The status of each Reason is in problem.go. Package guard controls access.
//
// While the API server is away, GET /pods returns the last known pods with a Warning
// header.
package endpoint
