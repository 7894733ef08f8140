package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
)

// user of the manager in its image.
const nonroot = 65532

const prepareLogsHelp = `Give the log directories of the host, and what is in them, to the user of the manager,
so that the manager need not be root. It runs as root in an init container. It prints
what fails, and exits with code 0: the manager works without log files.`

func newPrepareLogsCommand() *cobra.Command {
	directories, owner := []string{defaultLogDir, defaultAPILogDir}, nonroot
	command := &cobra.Command{
		Use: "prepare-logs", Short: "Give the log directories to the user of the manager", Long: prepareLogsHelp,
		Example: "  manager prepare-logs",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			for _, directory := range directories {
				if err := giveTo(owner, directory); err != nil {
					command.PrintErrf("manager: no log files in %s, or not all: %v\n", directory, err)
				}
			}
			return nil
		},
	}
	command.Flags().StringSliceVar(&directories, "directories", directories, "`directories`, which exist")
	command.Flags().IntVar(&owner, "user", owner, "numeric `user` and group of the manager")
	return command
}

// giveTo makes a user and its group the owner of a directory and of everything in it. It
// follows no links, which may lead out of it, and continues after errors.
func giveTo(user int, directory string) error {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only read
	var failed []error
	err = fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = root.Lchown(path, user, user)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", path, err))
		}
		return nil
	})
	return errors.Join(append(failed, err)...)
}
