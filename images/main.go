// Images packs container images without a container engine and without a registry: the
// image of the operator, and the ones of the stand-ins that play the components on
// test nodes. The programs are built before (make images).
//
//	images --programs DIR --output DIR             archives: operator.tar, and standins.tar if they were built
//	images --programs DIR --rootfs DIR             what is in the operator's image, for the Dockerfile
//	images --programs DIR --release DIR            archives of a release, for all architectures; prints the digest
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
	"runtime"
)

func main() {
	flags := flag.NewFlagSet("images", flag.ExitOnError)
	programs := flags.String("programs", "", "`folder` with the built programs, and with those of the stand-ins in standin/; for a release, a folder for each architecture in it")
	output := flags.String("output", "", "`folder` for the archives")
	rootfs := flags.String("rootfs", "", "`folder` for the files of the operator's image")
	release := flags.String("release", "", "`folder` for the archives of a release")
	version := flags.String("version", "dev", "`version` of the operator, for the label of its image")
	_ = flags.Parse(os.Args[1:]) // ends the program
	var err error
	switch {
	case *programs != "" && *output != "":
		err = writeArchives(*programs, *output, *version)
	case *programs != "" && *rootfs != "":
		err = unpackOperator(*programs, *rootfs)
	case *programs != "" && *release != "":
		err = writeRelease(*programs, *release, *version)
	default:
		err = errors.New("--programs is required, with one of --output, --rootfs and --release")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func unpackOperator(programs, rootfs string) error {
	files, err := operatorFiles(programs, ".")
	if err != nil {
		return err
	}
	return files.unpack(rootfs)
}

// writeArchives writes the images for this machine's architecture.
func writeArchives(programs, output, version string) error {
	files, err := operatorFiles(programs, ".")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(output, 0o755); err != nil {
		return err
	}
	if err := write(filepath.Join(output, "operator.tar"), runtime.GOARCH, files, []image{operatorImage(operatorTag, version)}); err != nil {
		return err
	}
	standins := filepath.Join(programs, "standin")
	if _, err := os.Stat(standins); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	busybox, err := findBusybox()
	if err != nil {
		return err
	}
	files, err = standinFiles(standins, busybox)
	if err != nil {
		return err
	}
	return write(filepath.Join(output, "standins.tar"), runtime.GOARCH, files, standinImages())
}

// architectures of a release, in Go's names.
var architectures = []string{"amd64", "arm64"}

// writeRelease writes the operator's image for each architecture as an archive for docker, and
// all of them as one archive for registries and containerd. It prints repository, tag and
// digest of the latter.
func writeRelease(programs, output, version string) error {
	operator := operatorImage(operatorRepository+":"+version, version)
	files := map[string]fileSet{}
	for _, architecture := range architectures {
		var err error
		if files[architecture], err = operatorFiles(filepath.Join(programs, architecture), "."); err != nil {
			return err
		}
		path := filepath.Join(output, "gcu-operator_"+version+"_image_linux_"+architecture+".tar")
		if err := write(path, architecture, files[architecture], []image{operator}); err != nil {
			return err
		}
	}
	index, err := operator.index(files, architectures)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("computing the digest of %s: %w", operator.tag, err)
	}
	if err := operator.writeIndex(filepath.Join(output, "gcu-operator_"+version+"_image_oci.tar"), index); err != nil {
		return err
	}
	fmt.Println(operator.tag + "@" + digest.String())
	return nil
}
