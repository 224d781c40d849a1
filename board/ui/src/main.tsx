import { render } from "preact";
import "./style/base.css";
import "./style/shell.css";
import "./style/list.css";
import "./style/problem.css";
import "./style/result.css";
import "./style/plot.css";
import "./theme";
import { App } from "./app";
import * as keys from "./keys";
import * as route from "./route";

route.listen();
keys.listen();
const root = document.getElementById("app");
if (root !== null) render(<App />, root);
