// Package realnode runs real nodes on this machine: a kubelet, containerd and, on one
// of them, dockerd.
//
//	machine                                        node real-1: one runc container
//	  kube-apiserver on 10.N.128.1:443               runsvdir - containerd - pods
//	      |                                                   - kubelet
//	  bridge tcN 10.N.0.1/24 ---- tcNv1 ---- eth0 10.N.0.11   - dockerd
//	                         ---- tcNv2 ---- ...     cni0 10.N.1.0/24, of its pods
//
// A node is a container of the machine's own runc, with namespaces and a cgroup of its
// own, all rights, and a root of its own: /usr and /etc are the machine's with a
// layer on top, everything else is a folder of the cluster. So each daemon has its
// usual paths and nothing of a node is seen or changed by another one, and hostPath
// volumes and hostPID are what they are elsewhere. /sys/module is empty and can be
// written, so that what runs on a node can show a kernel module of its own. runit
// supervises the daemons.
//
// There is no kube-proxy and no DNS. The only Service that works is kubernetes: its
// address is the one that the API server itself listens on. Pods reach each other
// on all nodes; they do not reach the world.
//
// Losing power is a SIGKILL of the first process: the kernel kills all others of the
// PID namespace, and mounts and interfaces go with their namespaces.
//
// N is claimed with a folder in /run/gcu-testcluster, before anything is made. All
// that is outside of a cluster's directory has N in its name, so that a claim is
// enough to find and remove it. A claim whose cluster's state file is gone is
// nobody's, and is removed by the next Claim.
//
// # Files
//
//	spec.go       which nodes, their names and addresses
//	claim.go      N, and the removal of all that has it in its name
//	network.go    bridge, cables, network namespaces
//	machine.go    the disk of a node and the bundle for runc
//	power.go      boot, loss of power, running a program on a node
//	image.go      images into the container runtimes
//	packages.go   what has to be installed
//	files/        the bundle, and what a node has in /etc
package realnode
