// Package dashboard serves the fleet on one page: what kubectl gcu status and nodes show, live, with
// buttons for what kubectl gcu does. It runs on the user's machine, with the user's kubeconfig.
//
//	Source (the cluster, with the rights of the user)
//	    | Changed           a watch saw something
//	    v
//	Server -- View (pure) --> page.html --> browser
//	    ^                                     |
//	    +---- GET /events: the page again ----+   server-sent events
//	    +---- GET /dry-run: its result -------+   a dry run of the same requests
//	    +---- POST /do: an Action ------------+   only what Source.May allows, and as it was shown
//
// # Routes
//
//	GET  /?token=...  sets the cookie that all other routes need, and redirects to /
//	GET  /            the page; ?lang=zh or en chooses the language
//	GET  /events      server-sent events: "page" when the page has changed, "read" with the time of the last reading
//	GET  /node        one node: tasks, requests, history, events; ?gr=GR&name=NODE
//	GET  /dry-run     what an action would do, or why it would be refused: verb, gr, target
//	POST /do          carries out an action: verb, gr, target, and seen, which the response of /dry-run has
//
// The source reads from caches, which still respond when the API server does not. So the server sends a request
// to the API server every few seconds; without a response the page says that it is not up to date. If the browser
// receives nothing from this server, it says so too.
//
// The server listens on loopback only. Requests need the random token, a Host header that names the
// address, and, to change something, no foreign origin (net/http's CrossOriginProtection).
package dashboard
