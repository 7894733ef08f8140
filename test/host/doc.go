// Package host tests pkg/hostagent, and the node agent with it, against the real dockerd and containerd of
// Debian, which it restarts, and a real registry on a loopback address. The agent is a process of
// its own that is killed in the middle and started again.
//
// It needs Linux and root, and says in a skip what it did not test otherwise (test/need).
// Missing packages are installed (test/install). Each daemon has directories, socket and
// processes of its own below a temporary directory; nothing else is touched, and
// no container is run.
package host
