"""Explain a random forest: fit once, then every row and class in one pass, and a page to look at."""

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import aimwise

data = load_breast_cancer(as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(data.data, data.target_names[data.target], random_state=0)
model = RandomForestClassifier(random_state=0).fit(X_train, y_train)

explainer = aimwise.AIM(epochs=8).fit(model, X_train)
explanation = explainer.explain(X_test, check=32, top=(1, 3, 5))

print(explanation)
for trial in explanation.trials:
    kept = (trial.kept.argmax(1) == explanation.prediction).float().mean()
    print(f"the {trial.k} strongest columns alone keep {kept:.2f} of the predictions")
print("report:", explanation.to_html("breast_cancer.html", truth=y_test))
