package main

// cli is what all commands share.
type cli struct {
	terminal
	connection
}
