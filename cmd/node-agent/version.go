package main

// version is set by the build: -ldflags "-X main.version=v1.2.3".
var version = "dev"
