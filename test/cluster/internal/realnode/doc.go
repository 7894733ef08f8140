// Package realnode runs real nodes on this machine: a kubelet, containerd and, on one
// of them, dockerd.
//
//	machine                                        node real-1: one runc container
//	  kube-apiserver on 10.N.128.1:443               runsvdir - containerd - pods
//	      |                                                   - kubelet
//	  bridge tcN 10.N.0.1/24 ---- tcNv1 ---- eth0 10.N.0.11   - dockerd
//	                         ---- tcNv2 ---- ...     cni0 10.N.1.0/24, of its pods
//
// A node is a container of the machine's runc, with its own namespaces and cgroup, all
// capabilities, and its own root: /usr and /etc are the machine's with an overlay,
// everything else is in a folder of the cluster. So daemons have their usual paths,
// nodes are isolated from each other, and hostPath volumes and hostPID work as on any
// node. /sys/module is empty and writable, so that a node can show a kernel module of
// its own. runit supervises the daemons.
//
// There is no kube-proxy and no DNS. The only Service that works is kubernetes, because
// the API server itself listens on its address. Pods reach each other on all nodes, but
// not the internet.
//
// Power loss is a SIGKILL of the first process: the kernel kills all others of the PID
// namespace, and removes mounts and interfaces with their namespaces.
//
// N is claimed with a folder in /run/gcu-testcluster before anything is created. All
// resources outside a cluster's directory have N in their names, so the claim is enough
// to find and remove them. The next Claim removes claims whose cluster's state file is
// gone.
//
// # Files
//
//	spec.go       which nodes, their names and addresses
//	claim.go      N, and the removal of everything with N in its name
//	network.go    bridge, veth pairs, network namespaces
//	machine.go    the disk of a node and the bundle for runc
//	power.go      boot, power loss, running a program on a node
//	image.go      images into the container runtimes
//	packages.go   packages to install
//	files/        the bundle, and a node's files in /etc
package realnode
