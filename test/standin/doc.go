// Standin is one program that simulates the components of a gr on test nodes: each of
// their images contains it, under the names that the pods of pkg/gcuresource/component
// call.
//
//	nfd-master, nfd-worker    label the node with the features in features.d
//	driver                    shows a version and cards, or misbehaves; cannot be replaced while a card is open
//	install-driver            loads a driver directly on the node, and exits
//	toolkit                   installs enflame-container-runtime and makes it the default of docker and containerd
//	device-plugin             offers the cards to the kubelet
//	exporter, gfd             serve metrics, and write features
//	workload                  holds its cards until some time after SIGTERM
//
// A loaded driver looks like the real one: /sys/module/enflame/version, /dev/gcu0 and
// so on. So a test node needs a writable /sys/module, which is empty after each boot;
// programs in /etc/boot.node then load the installed version. The cards are character
// devices that discard all data.
//
// A process that uses a card has it open, and the driver cannot be replaced meanwhile,
// just as the kernel refuses to unload a module in use. So replacing a driver too early
// fails on test nodes too.
//
// An image is configured by its environment, so that two images with the same files are
// two versions; a gr can change it with the component's env:
//
//	STANDIN_VERSION     of the driver, also of the toolkit
//	STANDIN_BEHAVIOR   driver: fail, hang, never-ready, cut-network; toolkit: keep-default
//	STANDIN_DELAY       driver: loading time; cut-network: time from loading until the network is cut;
//	                    toolkit: time until it changes anything; workload: from SIGTERM to its exit
//	STANDIN_CARDS       number of cards that the driver shows and the device plugin offers
//	STANDIN_INTERVAL    poll interval for the node
package main
