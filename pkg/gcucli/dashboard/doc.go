// Package dashboard serves the fleet on one page: what kubectl gcu status and nodes show, live, with
// buttons for what kubectl gcu does. It runs on the user's machine, with the user's kubeconfig.
//
//	Source (the cluster, with the rights of the user)
//	    | Changed           a watch saw something
//	    v
//	Server -- View (pure) --> page.html --> browser
//	    ^                                     |
//	    +---- GET /events: the page again ----+   server-sent events
//	    +---- POST /do: an Action ------------+   only what Source.May allows
//
// # Routes
//
//	GET  /?token=...  sets the cookie that all other routes need, and redirects to /
//	GET  /            the page; ?lang=zh or en chooses the language
//	GET  /events      server-sent events: "page" when the page has changed
//	GET  /node        one node: tasks, requests, history, events; ?gr=GR&name=NODE
//	POST /do          carries out an action: verb, gr, target
//
// The server listens on loopback only. Requests need the random token, a Host header that names the
// address, and, to change something, no foreign origin (net/http's CrossOriginProtection).
package dashboard
