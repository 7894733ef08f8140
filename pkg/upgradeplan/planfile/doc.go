// Package planfile implements plans that a person can edit: the file that kubectl gcu plan -o yaml
// writes, and the UpgradePlan that kubectl gcu upgrade --plan makes of it. A plan is a Mission, written
// as classes of jobs and their nodes, so that it stays readable and small for a large fleet.
//
//	Of      a mission ──► file            write.go
//	Parse   file ──► UpgradePlan          parse.go
//	Read    UpgradePlan ──► Plan          plan.go   which batch, components and tasks a node has
//	        what a person may not change  rules.go
//	        the tasks before and after the nodes  global.go
//	Check   does it still match what the nodes need? check.go
//
// A person may remove nodes, move them to other batches, order and merge batches, give a node
// another job, remove a component with all its tasks from a job, and leave out what the logic book
// calls optional: images that are pulled ahead, and the soak at the end. All else is refused, and the
// message gives the rule: the tasks that empty, verify and uncordon a node belong to the components
// that need them, and the order of the tasks on a node is the one of the logic book.
//
// The package is pure.
package planfile
