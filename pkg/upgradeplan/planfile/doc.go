// Package planfile is the plan that a person has in hand: the file that kubectl gcu plan -o yaml
// writes, and the UpgradePlan that kubectl gcu upgrade --plan makes of it. It is a Mission, written
// as classes of jobs and their nodes, so that it stays readable and small for a large fleet.
//
//	Of      a mission ──► file            write.go
//	Parse   file ──► UpgradePlan          parse.go
//	Read    UpgradePlan ──► Plan          plan.go   which batch, components and tasks a node has
//	        what a person may not change  rules.go
//	        what is done before and after the nodes  global.go
//	Check   is it still what the nodes need? check.go
//
// A person may remove nodes, move them to other batches, order and merge batches, give a node
// another job, remove a component with all its tasks from a job, and leave out what the logic book
// calls optional: images that are pulled ahead, and the soak at the end. All else is refused, with
// the rule: what empties, verifies and returns a node belongs to the components that need it, and
// the order of the tasks on a node is that of the logic book.
//
// The package is pure.
package planfile
