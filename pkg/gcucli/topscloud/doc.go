// Package topscloud converts a GcuResource of the newer operator, with API group
// topscloud.enflame.com, into ours (decision D24 of the contract). It is pure.
//
// That API is not published. The table in convert.go holds what is known of it, from a log
// of operator 2.4.6 (components.md section 1.0). Other fields are kept if our types have
// them, and reported as lost if they do not.
package topscloud
