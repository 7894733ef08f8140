// Package host tests pkg/hostagent, and the node agent with it, against Debian's dockerd
// and containerd, which it restarts, and a real registry on a loopback address. The agent
// is a separate process that is killed at different points and started again.
//
// It needs Linux and root; otherwise tests are skipped with a message (test/need).
// Missing packages are installed (test/install). Each daemon has its own directories,
// socket and processes below a temporary directory; nothing else is touched. The only
// container that is run sleeps, without a network.
package host
