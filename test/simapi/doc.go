// Package simapi is a model of the API server for simulations: one goroutine at a time uses it,
// and every choice is the caller's, so that a seed decides everything.
//
//	API     the true state, with resource versions, preconditions, patches and graceful deletion
//	Cache   the cache of one process, which lags: per kind it shows the state some changes ago
//	Client  a client.Client that writes to an API, and reads from a Cache or the true state
package simapi
