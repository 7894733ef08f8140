// Kubectl-gcu is the kubectl plugin for people: what happens to a GcuResource and
// its nodes and why, and the verbs to steer it. This package holds flags, reads and
// writes; what is said is made by package view.
//
// Every write is a patch with the resourceVersion that was read as precondition,
// by the field manager kubectl-gcu: what somebody else changed meanwhile is read
// and judged again, never overwritten. Everything it does can be done with kubectl
// and the annotations of api/v1.
package main
