// Package topscloud translates a GcuResource of the newer operator, whose API group
// is topscloud.enflame.com, into ours (decision D24 of the contract). It is pure.
//
// That API is not published: what is known of it, from a log of operator 2.4.6, is
// the table in convert.go (components.md section 1.0). Whatever else a file holds is
// carried over when our types know it, and told as lost when they do not.
package topscloud
