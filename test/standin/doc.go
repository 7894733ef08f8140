// Standin is one program that plays the components of a gr on test nodes: each of
// their images has it, under the names that the pods of pkg/gcuresource/component call.
//
//	nfd-master, nfd-worker    label the node with what is in features.d
//	driver                    shows a version and cards, or misbehaves; refuses to go while a card is open
//	install-driver            loads a driver, on the node itself, and ends
//	toolkit                   installs enflame-container-runtime and makes it the default of docker and containerd
//	device-plugin             offers the cards to the kubelet
//	exporter, gfd             serve metrics, and write features
//	workload                  holds its cards until it is told to end, and some time longer
//
// A loaded driver is what the real one is to everybody else: /sys/module/enflame/version
// and /dev/gcu0 and on. So a test node needs a /sys/module that can be written, which
// is empty after each boot, and runs what is in /etc/boot.node then: that loads the
// version which was installed. The cards are character devices that swallow everything.
//
// Who uses a card has it open, and the driver is not replaced while somebody does, as
// the kernel refuses to unload a module in use. So an operator that replaces a driver
// too early fails on test nodes too.
//
// What an image is to be is in its environment, so that two images of the same
// files are two versions; a gr can change it with the component's env:
//
//	STANDIN_VERSION     of the driver, also of the toolkit
//	STANDIN_BEHAVIOUR   driver: fail, hang, never-ready, cut-network; toolkit: keep-default
//	STANDIN_DELAY       driver: how long loading takes; cut-network: until the node is cut off
//	                    once it is loaded; toolkit: how long it takes until it changes
//	                    anything; workload: from SIGTERM to its end
//	STANDIN_CARDS       how many the driver shows, and the device plugin offers
//	STANDIN_INTERVAL    between two looks at the node
package main
