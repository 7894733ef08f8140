package browser

import (
	"context"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

// spoken are the roles of what a screen reader announces, or jumps to, by its name.
var spoken = []string{"button", "link", "heading", "dialog", "complementary", "progressbar", "image", "region"}

// names checks that everything on the page with one of these roles has a name for a screen reader, and that each of some roles
// is there, and returns the names by role.
func (p *page) names(there ...string) map[string][]string {
	p.t.Helper()
	tree := value(p, chromedp.Action[accessibility.GetFullAXTreeResult](func(ctx context.Context, t *chromedp.Target) (accessibility.GetFullAXTreeResult, error) {
		return cdp.Call(ctx, t, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	}))
	names := map[string][]string{}
	for _, n := range tree.Nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		role, name := strings.Trim(string(n.Role.Value), `"`), ""
		if n.Name != nil {
			name = strings.Trim(string(n.Name.Value), `"`)
		}
		if slices.Contains(spoken, role) && name == "" {
			p.t.Errorf("for a screen reader a %s has no name", role)
		}
		names[role] = append(names[role], name)
	}
	for _, role := range there {
		if len(names[role]) == 0 {
			p.t.Errorf("for a screen reader there is no %s", role)
		}
	}
	return names
}
