package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// operatorRepository is the name of the operator's image in config/.
const operatorRepository = "artifact.enflame.cn/enflame_docker_images/enflame/gcu-operator"

// operatorTag is the tag of the operator's image in the manifests that come with this plugin: the one in
// config/ for a checkout; a release sets its own with -ldflags "-X main.operatorTag=v1.2.3".
var operatorTag = "dev"

// imageList is what a cluster pulls.
type imageList struct {
	// Images are sorted.
	Images []string `json:"images"`
}

func (l imageList) text(display.Style) string { return strings.Join(append(l.Images, ""), "\n") }

func imagesCommand(c *cli) *cobra.Command {
	var o output
	var file string
	command := &cobra.Command{
		Use:   "images",
		Short: "List all images that the operator and the components of grs run",
		Long: `List all images that the operator and the components of grs run, one a line, to copy
them to where there is no network. With -f FILE it asks no cluster: it lists those of
the gr in the file, and the operator's image of the release of this plugin: tag dev if
it was built from a checkout, as in its chart.

While the spec of a gr is rejected after a rollback, these are the images of that spec,
and of the one that is deployed in its place.`,
		Example: `  # Into an archive, and on a machine that reaches the mirror
  kubectl gcu images -f gr.json > images.txt
  xargs -n1 docker pull < images.txt && xargs docker save -o images.tar < images.txt

  # What the cluster runs
  kubectl gcu images`,
		Args: cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			list, err := c.images(ctx, file)
			if err != nil {
				return err
			}
			return c.print(o, list, list.text)
		}),
	}
	o.bind(command)
	command.Flags().StringVarP(&file, "filename", "f", "", "`file` with a gr in JSON or YAML; - is standard input")
	return command
}

// images returns those of a file, or of the cluster if it is empty.
func (c *cli) images(ctx context.Context, file string) (imageList, error) {
	if file == "" {
		return c.imagesOfCluster(ctx)
	}
	document, err := readResource(c.In, file)
	if err != nil {
		return imageList{}, err
	}
	var gr topsv1.GcuResource
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(document.Object, &gr); err != nil {
		return imageList{}, usageError("reading %s: %w", file, err)
	}
	return listImages([]topsv1.GcuResource{gr}, []string{operatorRepository + ":" + operatorTag})
}

// imagesOfCluster includes the images of rejected specs: they are rolled out if the rollout is resumed.
func (c *cli) imagesOfCluster(ctx context.Context) (imageList, error) {
	cl, err := c.connect()
	if err != nil {
		return imageList{}, err
	}
	var manager appsv1.Deployment
	if err := cl.read(ctx, cl.namespace, operatorName, &manager); err != nil {
		return imageList{}, err
	}
	var grs topsv1.GcuResourceList
	if err := cl.all(ctx, "", &grs); err != nil {
		return imageList{}, err
	}
	all := slices.Clone(grs.Items)
	for i := range grs.Items {
		gr := &grs.Items[i]
		dro, err := cl.rollout(ctx, gr.Name)
		if err != nil {
			return imageList{}, err
		}
		deployed, err := cl.inForce(ctx, gr, dro)
		if err != nil {
			return imageList{}, err
		}
		all = append(all, *deployed)
	}
	return listImages(all, daemonset.Images(&manager.Spec.Template.Spec))
}

// listImages adds the images of grs to others.
func listImages(grs []topsv1.GcuResource, images []string) (imageList, error) {
	for i := range grs {
		found, err := component.Images(&grs[i])
		if err != nil {
			return imageList{}, err
		}
		images = append(images, found...)
	}
	slices.Sort(images)
	return imageList{Images: slices.Compact(images)}, nil
}
