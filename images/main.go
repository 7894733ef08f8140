// Images packs container images without a container engine and without a registry: the
// image of the operator, and the ones of the stand-ins that play the components on
// test nodes. The programs are built before (make images).
//
//	images --programs DIR --output DIR             archives: operator.tar, and standins.tar if they were built
//	images --programs DIR --rootfs DIR             what is in the operator's image, for the Dockerfile
//
// "docker load" and "ctr image import" read the archives. The same files make the same
// images.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func main() {
	flags := flag.NewFlagSet("images", flag.ExitOnError)
	programs := flags.String("programs", "", "`folder` with the built programs, and with those of the stand-ins in standin/")
	output := flags.String("output", "", "`folder` for the archives")
	rootfs := flags.String("rootfs", "", "`folder` for the files of the operator's image")
	version := flags.String("version", "dev", "`version` of the operator, for the label of its image")
	_ = flags.Parse(os.Args[1:]) // ends the program
	if err := run(*programs, *output, *rootfs, *version); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(programs, output, rootfs, version string) error {
	if programs == "" || (output == "") == (rootfs == "") {
		return errors.New("--programs is required, with one of --output and --rootfs")
	}
	busybox, err := findBusybox()
	if err != nil {
		return err
	}
	files, err := operatorFiles(programs, filepath.Join("pkg", "gcuresource", "component", "manifests"), busybox)
	if err != nil {
		return err
	}
	if rootfs != "" {
		return files.unpack(rootfs)
	}
	if err := os.MkdirAll(output, 0o755); err != nil {
		return err
	}
	if err := write(filepath.Join(output, "operator.tar"), files, []image{operatorImage(version)}); err != nil {
		return err
	}
	standins := filepath.Join(programs, "standin")
	if _, err := os.Stat(standins); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	files, err = standinFiles(standins, busybox)
	if err != nil {
		return err
	}
	return write(filepath.Join(output, "standins.tar"), files, standinImages())
}
