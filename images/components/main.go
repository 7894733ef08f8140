// Components builds the images of the components with the script of the vendor's package, which alone has their
// files (contract statement 87): it sets in the package's config.json what is asked for, runs
// build-component-image.sh build, and answers its questions.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
)

const (
	script = "build-component-image.sh"
	config = "config.json"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "components: %v\n", err)
		os.Exit(1)
	}
}

// options are what is asked for; "" leaves what the package says.
type options struct {
	repository, driver, overwrite string
	folder                        string
}

func run(args []string, in io.Reader, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("components", flag.ContinueOnError)
	flags.StringVar(&o.repository, "repository", "", "`registry` and path of the images: repo of config.json")
	flags.StringVar(&o.driver, "driver", "", "`true` or false: whether the image of the driver is built, driver.build of config.json")
	flags.StringVar(&o.overwrite, "overwrite", "", "`yes` or no: the answer when an image exists already; the script asks without it")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case flags.NArg() != 1:
		return errors.New("give the folder component-images of a topscloud or topsrider package")
	}
	o.folder = flags.Arg(0)
	if err := o.check(); err != nil {
		return err
	}
	if err := o.configure(); err != nil {
		return err
	}
	return o.build(in, out)
}

// check returns an error unless the options are understood, and the folder has what they need.
func (o *options) check() error {
	for name, is := range map[string][]string{"-driver": {o.driver, "true", "false"}, "-overwrite": {o.overwrite, "yes", "no"}} {
		if is[0] != "" && is[0] != is[1] && is[0] != is[2] {
			return fmt.Errorf("%s is %s or %s, not %q", name, is[1], is[2], is[0])
		}
	}
	for _, name := range []string{script, config} {
		if _, err := os.Stat(filepath.Join(o.folder, name)); err != nil {
			return fmt.Errorf("%s is not the folder component-images of a topscloud or topsrider package: %w", o.folder, err)
		}
	}
	found, err := filepath.Glob(filepath.Join(o.folder, "driver", "*.run"))
	if err == nil && o.driver == "true" && len(found) == 0 {
		err = fmt.Errorf("%s has no installer of the driver, *.run: extract a TopsRider package with -x, and copy its folder driver there", filepath.Join(o.folder, "driver"))
	}
	return err
}

// configure writes what is asked for into config.json, and leaves all else there as it is.
func (o *options) configure() error {
	path := filepath.Join(o.folder, config)
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading %s: %w", config, err)
	}
	var is, was map[string]any
	if err := errors.Join(json.Unmarshal(text, &is), json.Unmarshal(text, &was)); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if o.repository != "" {
		is["repo"] = o.repository
	}
	if o.driver != "" {
		driver, ok := is["driver"].(map[string]any)
		if !ok {
			return fmt.Errorf("%s has no object driver, whose build was to be %s", path, o.driver)
		}
		driver["build"] = o.driver == "true"
		if _, text := was["driver"].(map[string]any)["build"].(string); text {
			driver["build"] = o.driver
		}
	}
	if reflect.DeepEqual(is, was) {
		return nil
	}
	if text, err = json.MarshalIndent(is, "", "  "); err != nil {
		return fmt.Errorf("writing %s: %w", config, err)
	}
	next := path + ".new"
	if err := os.WriteFile(next, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", config, err)
	}
	return os.Rename(next, path)
}

// build runs the script; without an answer it asks the person.
func (o *options) build(in io.Reader, out io.Writer) error {
	command := exec.Command("./"+script, "build")
	command.Dir, command.Stdin, command.Stdout, command.Stderr = o.folder, in, out, out
	if o.overwrite != "" {
		command.Stdin = strings.NewReader(strings.Repeat(o.overwrite[:1]+"\n", 100)) // there are ten components
	}
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(o.folder, script), err)
	}
	fmt.Fprintln(out, "Name the images in the gr: repository, and version default, of each component. kubectl gcu images -f FILE lists what it runs.")
	return nil
}
