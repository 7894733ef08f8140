package versions

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Policy is a parsed spec.versions. It caches the paths that it found, so it is not
// safe for concurrent use. A nil Policy allows everything.
type Policy struct {
	steps []step
	fits  []fit
	paths map[change][]string
}

// change is a change of the version of a component.
type change struct{ component, from, to string }

// step is an entry of versions.steps.
type step struct {
	component string
	from, to  versionRange
}

// fit is an entry of versions.fit; index is its position there.
type fit struct {
	index      int
	component  string
	version    versionRange
	components []requirement
	kernel     versionRange
	// nodes selects the nodes, nil for any; nodeSelector is its text.
	nodes        labels.Selector
	nodeSelector string
}

// requirement is a range of versions of another component.
type requirement struct {
	component string
	version   versionRange
}

// Of parses a spec; nil gives nil. The error names the range or selector that is invalid.
func Of(spec *topsv1.VersionPolicy) (*Policy, error) {
	if spec == nil {
		return nil, nil
	}
	p := &Policy{paths: map[change][]string{}}
	for i := range spec.Steps {
		s := &spec.Steps[i]
		from, err := rangeOf(fmt.Sprintf("versions.steps[%d].from", i), string(s.From))
		if err != nil {
			return nil, err
		}
		to, err := rangeOf(fmt.Sprintf("versions.steps[%d].to", i), string(s.To))
		if err != nil {
			return nil, err
		}
		p.steps = append(p.steps, step{component: string(s.Component), from: from, to: to})
	}
	for i := range spec.Fit {
		f, err := fitOf(i, &spec.Fit[i])
		if err != nil {
			return nil, err
		}
		p.fits = append(p.fits, f)
	}
	return p, nil
}

func fitOf(index int, spec *topsv1.VersionFit) (fit, error) {
	field := fmt.Sprintf("versions.fit[%d]", index)
	f := fit{index: index, component: string(spec.Component)}
	var err error
	if f.version, err = rangeOf(field+".version", string(spec.Version)); err != nil {
		return f, err
	}
	if f.kernel, err = rangeOf(field+".kernel", string(spec.Kernel)); err != nil {
		return f, err
	}
	for i := range spec.Components {
		r := requirement{component: string(spec.Components[i].Component)}
		if r.version, err = rangeOf(fmt.Sprintf("%s.components[%d].version", field, i), string(spec.Components[i].Version)); err != nil {
			return f, err
		}
		f.components = append(f.components, r)
	}
	if spec.NodeSelector != nil {
		if f.nodes, err = metav1.LabelSelectorAsSelector(spec.NodeSelector); err != nil {
			return f, fmt.Errorf("%s.nodeSelector: %w", field, err)
		}
		f.nodeSelector = f.nodes.String()
	}
	return f, nil
}
