// Package circle has two files that use each other.
package circle

type thing struct{}

func (t *thing) first() *thing { return t.second(1) }
